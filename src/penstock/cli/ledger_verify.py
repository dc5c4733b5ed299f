"""`penstock ledger verify`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, Self

from penstock.budget.accountant import Account
from penstock.budget.grid import promised
from penstock.cli.completers import StreamName
from penstock.cli.formatting import amount, exact_and_decimal, say
from penstock.cli.options import Json
from penstock.cli.store_argument import chosen, configures, open_store, read_pipeline
from penstock.core.errors import (
    ConfigurationError,
    LedgerError,
    StateError,
    StoreUnavailableError,
)
from penstock.engine import factory
from penstock.engine.chain import Head, HeadFile
from penstock.engine.ledger_report import ViewsLedger, streams_of, together
from penstock.engine.pipeline import Pipeline
from penstock.engine.sealing import Key
from penstock.engine.signing import PublicKey
from penstock.engine.store import Reader, VerifiedLedger
from penstock.engine.witnesses import WitnessAnswer, ask_witnesses, contradictions
from penstock.released.series import Series

_HEAD = re.compile(r"([0-9]+):([0-9a-f]{64})")


def verify(
    store: str,
    /,
    *,
    stream: StreamName = None,
    head: str | None = None,
    export: str | None = None,
    public_key: Path | None = None,
    note: Path | None = None,
    as_json: Json = False,
) -> None:
    """Recompute every link of the chain and the cost of every window. Exit code 1 if anything is
    not as it was committed.

    Everything is recomputed from the store, for several views also their joint cost. The printed
    head stands for all of it. Note it elsewhere: later it shows whether anything up to it was
    changed, or an old backup restored. With a pipeline.toml, all witnesses that it names are asked:
    the head file, and every sink that reports what it holds.

    With --public-key, the newest unit of every series must be signed with that key, and every
    signature is checked. The chain has no secret, so that anybody can recompute it: only a
    signature, or a head that was noted elsewhere, shows that nobody has replaced all of it.

    For example:

    * penstock ledger verify pipeline.toml

    * penstock ledger verify taps.db --note elsewhere/auditor.head

    * penstock ledger verify taps.db --head elsewhere/auditor.head

    * penstock ledger verify pipeline.toml --stream taps --export public.db

    * penstock ledger verify public.db --public-key taps.pub

    Parameters
    ----------
    store
        The store: a file, postgresql://… (the password in PGPASSWORD), or the pipeline.toml that
        names it and its witnesses.
    stream
        Only this stream with all its views, or only this view. Default: everything.
    head
        A head file, or one printed head: each head must be in the store's past.
    export
        An exported store: every head of it must be in the store's past.
    public_key
        The publisher's public key, a PEM file. Default: that of the pipeline.toml, if its signing
        key can be read.
    note
        Write the heads into this file, if everything is valid.
    as_json
        As JSON, for programs.
    """
    pipeline = read_pipeline(store) if configures(store) else None
    keys = _Keys.of(pipeline, public_key)
    with open_store(store) as reader:
        try:
            known = streams_of(reader)
        except StoreUnavailableError:
            raise
        except StateError as error:  # a description that cannot be read
            _not_valid([str(error)], [], as_json=as_json)
        wanted = _wanted(known, stream)
        answers = [*_heads(head, wanted), *_exported(export)]
        if pipeline is not None:
            answers += ask_witnesses(pipeline, reader.series_names)
        if stream is not None:
            answers = [_only(answer, wanted) for answer in answers]
        found, findings = _verified(reader, wanted, keys)
        together, problems = _verified_together(reader, known, found)
        findings += problems
        findings += () if stream is not None else reader.strays()
        told = [_Told.of(reader, answer, keys) for answer in answers]
        rows = [_row(reader.series(series), each) for series, each in found.items()]
    findings += [finding for each in told for finding in each.findings]
    if findings:
        _not_valid(findings, told, as_json=as_json)
    if note is not None:
        HeadFile(note).update({series: each.head for series, each in found.items()})
    proofs = {series: _proofs(each, keys) for series, each in found.items()}
    if as_json:
        content = {
            "valid": True,
            "series": rows,
            "together": together,
            "proofs": proofs,
            "witnesses": [each.row() for each in told],
        }
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        _print_verified(rows, together, proofs, told, note)


# -- keys ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Keys:
    """The keys that signatures and keyed links are checked with, as far as they can be read."""

    public: PublicKey | None
    state: Key | None

    @classmethod
    def of(cls, pipeline: Pipeline | None, public_key: Path | None) -> Self:
        """Auditors may read a pipeline file, and rarely its secrets."""
        public = None if public_key is None else PublicKey.from_file(public_key)
        state = None
        if pipeline is not None:
            with suppress(ConfigurationError, StateError):
                state = factory.state_key(pipeline)
        if pipeline is not None and public is None:
            with suppress(ConfigurationError):
                signing_key = factory.signing_key(pipeline)
                public = None if signing_key is None else signing_key.public
        return cls(public, state)


# -- witnesses -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Told:
    """The answer of a witness, and how it differs from the store."""

    answer: WitnessAnswer
    differs: Mapping[str, str]
    newest: Mapping[str, int]

    @classmethod
    def of(cls, reader: Reader, answer: WitnessAnswer, keys: _Keys) -> Self:
        differs = contradictions(reader, answer, key=keys.state)
        for name, head in (answer.heads or {}).items():
            if name not in differs and keys.public is not None and head.signature is not None:
                try:
                    keys.public.check(name, head)
                except LedgerError as error:
                    differs[name] = f"{answer.witness}: {error}"
        newest = {name: reader.head(name).unit for name in reader.series_names}
        return cls(answer, differs, newest)

    @property
    def findings(self) -> list[str]:
        return [*filter(None, [self.answer.problem]), *self.differs.values()]

    @property
    def asked(self) -> bool:
        return self.answer.heads is not None

    def row(self) -> dict[str, Any]:
        """For programs."""
        row = {"witness": self.answer.witness, "asked": self.asked}
        if self.answer.heads is None:
            return {**row, "reason": self.answer.reason}
        heads = {name: str(head) for name, head in self.answer.heads.items()}
        return {**row, "heads": heads, "agrees": not self.findings}

    def line(self) -> str:
        """For people."""
        if self.answer.heads is None:
            return f"{self.answer.witness}: not asked: {self.answer.reason}"
        if self.answer.problem:
            return f"{self.answer.witness}: damaged."
        said = []
        for name, head in self.answer.heads.items():
            if name in self.differs:
                how = "which is not so in the store."
            elif head.unit > self.newest.get(name, 0):
                how = "which the store has and has shown to nobody yet."
            else:
                how = "as the store has it."
            said.append(f"has unit {head.unit} of {name}, {how}")
        return f"{self.answer.witness}: {' It '.join(said) or 'has no unit.'}"


def _heads(head: str | None, wanted: tuple[str, ...]) -> list[WitnessAnswer]:
    """The witness that --head gives."""
    if head is None:
        return []
    literal = _HEAD.fullmatch(head)
    if literal:
        if len(wanted) != 1:
            raise ConfigurationError(
                "a head alone does not say whose it is: choose a stream with --stream."
            )
        noted = {wanted[0]: Head(int(literal[1]), bytes.fromhex(literal[2]))}
        return [WitnessAnswer(witness="the head that was noted", heads=noted)]
    if not Path(head).is_file():
        raise ConfigurationError(f"there is no head file {head!r}.")
    return [WitnessAnswer(witness=f"the head file {head}", heads=HeadFile(head).read())]


def _exported(export: str | None) -> list[WitnessAnswer]:
    """The witness that --export gives."""
    if export is None:
        return []
    with open_store(export) as copy:
        heads = {name: copy.head(name) for name in copy.series_names}
    return [WitnessAnswer(witness=f"the export {export}", heads=heads)]


def _only(answer: WitnessAnswer, wanted: tuple[str, ...]) -> WitnessAnswer:
    """The answer about the chosen series alone."""
    if answer.heads is None:
        return answer
    heads = {name: head for name, head in answer.heads.items() if name in wanted}
    return replace(answer, heads=heads)


# -- the store -------------------------------------------------------------------------------------


def _verified(
    reader: Reader, wanted: Iterable[str], keys: _Keys
) -> tuple[dict[str, VerifiedLedger], list[str]]:
    """Each series whose chain was followed, and a sentence for each that is not as committed."""
    found, findings = {}, []
    for series in wanted:
        try:
            found[series] = reader.verify(series, public_key=keys.public, key=keys.state)
        except StoreUnavailableError:
            raise
        except (LedgerError, StateError) as error:
            findings.append(str(error))
    return found, findings


def _verified_together(
    reader: Reader, known: Mapping[str, ViewsLedger], found: Mapping[str, VerifiedLedger]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The highest joint spend of each stream with several views, if all of them were verified, and
    a sentence for each stream that breaks its promise.
    """
    rows, findings = [], []
    for views in known.values():
        if views.several and {each.name for each in views.series.values()} <= found.keys():
            try:
                worst = _together(reader, views, found)
            except StoreUnavailableError:
                raise
            except (LedgerError, StateError) as error:
                findings.append(str(error))
                continue
            limit = {"promised": str(views.guarantee.epsilon)}
            rows.append({"stream": views.name, **exact_and_decimal("worst_window", worst), **limit})
    return rows, findings


def _wanted(known: Mapping[str, ViewsLedger], stream: str | None) -> tuple[str, ...]:
    every = {each.name: (each.name,) for views in known.values() for each in views.series.values()}
    whole = {
        name: tuple(each.name for each in views.series.values()) for name, views in known.items()
    }
    if stream is None:
        return tuple(sorted(every))
    return {**every, **whole}[chosen({**every, **whole}, stream)]


def _together(reader: Reader, views: ViewsLedger, found: Mapping[str, VerifiedLedger]) -> Fraction:
    accounts: dict[str, Account] = {
        view: found[series.name].account for view, series in views.series.items()
    }
    joint = together(reader, views, accounts)
    unit = joint.first_above
    if unit is not None:
        raise LedgerError(
            f"stream {views.name!r}: the window that ends with unit {unit} cost "
            f"{joint.window(unit)} in all views together, above {views.guarantee.epsilon}."
        )
    return joint.worst


# -- output ----------------------------------------------------------------------------------------


def _not_valid(findings: Sequence[str], told: Sequence[_Told], *, as_json: bool) -> NoReturn:
    if as_json:
        content = {
            "valid": False,
            "problem": findings[0],
            "problems": findings,
            "witnesses": [each.row() for each in told],
        }
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        _print_witnesses(told)
    for finding in findings:
        print(f"penstock: not valid: {' '.join(finding.split())}", file=sys.stderr)
    sys.exit(1)


def _row(series: Series, verified: VerifiedLedger) -> dict[str, Any]:
    most = promised(series.guarantee)
    return {
        "series": series.name,
        "units": verified.head.unit,
        "currency": most.grid.currency,
        **exact_and_decimal("worst_window", verified.account.worst),
        "promised": str(most.amount),
        "head": str(verified.head),
    }


def _print_verified(
    rows: Sequence[dict[str, Any]],
    together: Sequence[dict[str, Any]],
    proofs: Mapping[str, Mapping[str, Any]],
    told: Sequence[_Told],
    note: Path | None,
) -> None:
    if not rows:
        say("The store is empty.")
        return
    say("Valid: every link and every window was recomputed.", "bold green")
    for row in rows:
        units = "1 unit" if row["units"] == 1 else f"{row['units']:,} units"
        say(f"{row['series']}: {units}; {_highest_spend(row)}")
        say(f"  head {row['head']}")
        for line in _proof_lines(proofs[row["series"]]):
            say(f"  {line}")
    for row in together:
        say(f"{row['stream']}, all views together: {_highest_spend(row)}")
    _print_witnesses(told)
    if not any(each.asked for each in told):
        say("No witness answered: units that were deleted at the end are not noticed.")
    if note is not None:
        say(f"The heads are noted in {note}: give it as --head next time.")
    elif not told:
        say(
            "Note the head elsewhere, or use --note FILE. With --head it shows later whether "
            "anything was changed."
        )


def _proofs(verified: VerifiedLedger, keys: _Keys) -> dict[str, Any]:
    """What was checked of a series."""
    units, by = verified.head.unit, verified.signed_by

    def since(first: int | None) -> int:
        return 0 if first is None else units - first + 1

    return {
        "links": verified.links,
        "signed_from": verified.signed_from,
        "signatures": since(verified.signed_from),
        "public_key": None if by is None or verified.signed_from is None else by.fingerprint,
        "public_key_given": keys.public is not None,
        "keyed_from": verified.keyed_from,
        "keyed_links": since(verified.keyed_from),
        "keyed_links_checked": keys.state is not None and verified.keyed_from is not None,
    }


def _proof_lines(proofs: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    yield f"{proofs['links']:,} links recomputed."
    if not proofs["signatures"]:
        yield "Not signed."
    elif proofs["public_key_given"]:
        yield (
            f"{proofs['signatures']:,} signatures checked, from unit {proofs['signed_from']} on: "
            f"public key {proofs['public_key']}."
        )
    else:
        yield (
            f"{proofs['signatures']:,} signatures checked, from unit {proofs['signed_from']} on, "
            f"with the public key that the store names, {proofs['public_key']}. Give --public-key: "
            "somebody may have replaced both."
        )
    if proofs["keyed_links_checked"]:
        yield f"{proofs['keyed_links']:,} keyed links checked, from unit {proofs['keyed_from']} on."
    elif proofs["keyed_links"]:
        yield (
            f"{proofs['keyed_links']:,} keyed links, from unit {proofs['keyed_from']} on, not "
            "checked: that needs the key of the state."
        )


def _print_witnesses(told: Sequence[_Told]) -> None:
    if told:
        say("Witnesses:")
    for each in told:
        say(f"  {each.line()}")


def _highest_spend(row: Mapping[str, Any]) -> str:
    sign = "ρ" if row.get("currency") == "rho" else "ε"
    spent, limit = amount(Fraction(row["worst_window"])), amount(Fraction(row["promised"]))
    return f"highest spend in any window: {sign} {spent} (limit: {limit})."
