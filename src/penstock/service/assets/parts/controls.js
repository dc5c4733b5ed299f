// Controls that views share. Each works with the keyboard and has a name for screen readers.
import { el, newId } from "./dom.js";
import { icon } from "./icons.js";

/**
 * One choice of a few, as a row of buttons.
 * @param {{label: string, options: [string, string][], value: string, change: (value: string) =>
 *   void}} given
 *   options are pairs of value and name
 */
export function pills({ label, options, value, change }) {
  const name = newId("choice");
  return el(
    "fieldset",
    { class: "choice" },
    el("legend", { text: label }),
    el(
      "div",
      { class: "pills" },
      ...options.map(([one, words]) =>
        el(
          "label",
          {},
          el("input", {
            type: "radio",
            name,
            value: one,
            checked: one === value,
            on: { change: () => change(one) },
          }),
          el("span", { text: words }),
        ),
      ),
    ),
  );
}

/** A choice from a list. */
export function select({ label, options, value, change }) {
  const field = el(
    "select",
    { on: { change: () => change(field.value) } },
    ...options.map(([one, words]) => el("option", { value: one, text: words })),
  );
  field.value = value;
  return el("label", { class: "choice" }, el("span", { text: label }), field);
}

/**
 * A switch. `why_not` says why it does not apply here; it is then off and disabled.
 * @param {{label: string, hint?: string, checked: boolean, change: (on: boolean) => void,
 *   whyNot?: string | null}} given
 */
export function toggle({ label, hint = "", checked, change, whyNot = null }) {
  const field = el("input", {
    type: "checkbox",
    role: "switch",
    checked: checked && !whyNot,
    disabled: Boolean(whyNot),
    on: { change: () => change(field.checked) },
  });
  return el(
    "label",
    { class: "switch", title: whyNot ?? hint },
    field,
    el("span", { class: "track", "aria-hidden": "true" }),
    el("span", { text: label }),
    whyNot && el("span", { class: "unseen", text: whyNot }),
  );
}

/**
 * A slider over named stops. The page follows the thumb; `change` comes when it has stopped moving.
 * @param {{label: string, stops: {value: any, name: string}[], place: number, change: (value:
 *   any) => void}} given
 */
export function slider({ label, stops, place, change }) {
  const id = newId("slider"),
    output = el("output", { for: id });
  let waiting = null;
  const say = () => {
    const { name } = stops[Number(field.value)];
    output.textContent = name;
    field.setAttribute("aria-valuetext", name);
  };
  const field = el("input", {
    type: "range",
    id,
    min: "0",
    max: String(stops.length - 1),
    step: "1",
    on: {
      input: () => {
        say();
        clearTimeout(waiting);
        waiting = setTimeout(() => change(stops[Number(field.value)].value), 140);
      },
    },
  });
  field.value = String(place);
  const node = el(
    "div",
    { class: "choice slider" },
    el("label", { for: id, text: label }),
    field,
    output,
  );
  say();
  return node;
}

/**
 * A field that finds keys while one types: a combobox with a list.
 * @param {{label: string, value: string, text: Function, search: (words: string) =>
 *   Promise<{value: string, name: string, more?: string}[]>,
 *   choose: (value: string, name: string) => void, placeholder?: string, clear?: boolean}} given
 */
export function keySearch({ label, value, text, search, choose, placeholder = "", clear = false }) {
  const id = newId("search"),
    // Without a tabindex, a list that scrolls takes the focus of Tab, and is hidden at once.
    list = el("ul", {
      id: `${id}-list`,
      role: "listbox",
      "aria-label": label,
      tabindex: "-1",
      hidden: true,
    });
  const status = el("span", { class: "unseen", role: "status" });
  let found = [],
    active = -1,
    asked = 0,
    timer = null,
    last = value;

  const open = () => !list.hidden;
  const close = () => {
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
    active = -1;
  };
  const mark = (place) => {
    active = (place + found.length) % found.length;
    [...list.children].forEach((node, at) =>
      node.setAttribute("aria-selected", String(at === active)),
    );
    field.setAttribute("aria-activedescendant", list.children[active].id);
    list.children[active].scrollIntoView({ block: "nearest" });
  };
  const pick = (place) => {
    const { value: chosen, name } = found[place];
    last = name;
    field.value = clear ? "" : name;
    close();
    choose(chosen, name);
  };
  const look = async () => {
    const mine = (asked += 1);
    const answer = await search(field.value === last ? "" : field.value.trim()).catch(() => []);
    if (mine !== asked || document.activeElement !== field) return; // an older question, or left
    found = answer;
    list.replaceChildren(
      ...(found.length
        ? found.map(({ name, more }, at) =>
            el(
              "li",
              {
                id: `${id}-${at}`,
                role: "option",
                "aria-selected": "false",
                on: { mousedown: (event) => event.preventDefault(), click: () => pick(at) },
              },
              el("span", { text: name }),
              more && el("small", { text: more }),
            ),
          )
        : [
            el("li", {
              class: "none",
              role: "option",
              "aria-disabled": "true",
              "aria-selected": "false",
              text: text("search.none"),
            }),
          ]),
    );
    list.hidden = false;
    active = -1;
    field.setAttribute("aria-expanded", "true");
    status.textContent = text("search.found", { count: found.length });
  };
  const keys = {
    ArrowDown: () => (open() && found.length ? mark(active + 1) : look()),
    ArrowUp: () =>
      open() && found.length ? mark(active < 0 ? found.length - 1 : active - 1) : look(),
    Enter: () => open() && found.length && pick(Math.max(active, 0)),
    Escape: () => {
      if (!clear) field.value = last;
      close();
    },
  };
  const field = el("input", {
    id,
    type: "text",
    role: "combobox",
    autocomplete: "off",
    spellcheck: "false",
    placeholder,
    "aria-expanded": "false",
    "aria-controls": list.id,
    "aria-autocomplete": "list",
    on: {
      focus: () => {
        field.select();
        look();
      },
      blur: () => {
        close();
        if (!clear) field.value = last;
      },
      input: () => {
        clearTimeout(timer);
        timer = setTimeout(look, 120);
      },
      keydown: (event) => {
        if (!(event.key in keys)) return;
        if (event.key !== "Escape" || open()) event.preventDefault();
        keys[event.key]();
      },
    },
  });
  field.value = value;
  const node = el(
    "div",
    { class: "choice search" },
    el("label", { for: id, text: label }),
    el("div", { class: "combo" }, field, list),
    status,
  );
  node.say = (name) => {
    last = name;
    field.value = name;
  };
  return node;
}

/** A chosen key that can be taken away again. */
export function chip({ name, sign, label, remove }) {
  return el(
    "li",
    { class: "chip" },
    sign,
    el("span", { text: name }),
    remove &&
      el(
        "button",
        { type: "button", "aria-label": label, title: label, on: { click: remove } },
        icon("close"),
      ),
  );
}
