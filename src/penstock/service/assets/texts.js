// All texts of the dashboard, one file per language. A view has no sentence of its own.

const LANGUAGES = ["en", "de"];

/**
 * The language to show: the reader's choice, else the browser's if the service offers it, else the
 * service's own.
 * @param {{languages?: string[], language?: string}} service
 * @param {readonly string[]} wanted languages of the browser
 */
export function chooseLanguage(service, wanted = navigator.languages, stored = storedLanguage()) {
  const offered = (service.languages ?? LANGUAGES).filter((one) => LANGUAGES.includes(one));
  const known = [stored, ...wanted.map((one) => one.slice(0, 2)), service.language];
  return known.find((one) => offered.includes(one)) ?? LANGUAGES[0];
}

export function keepLanguage(language) {
  try {
    localStorage.setItem("language", language);
  } catch {
    /* lasts as long as the page */
  }
}

function storedLanguage() {
  try {
    return localStorage.getItem("language");
  } catch {
    return null;
  }
}

/** @param {string} language */
export async function loadTexts(language, ask = (...all) => fetch(...all)) {
  const response = await ask(new URL(`texts/${language}.json`, import.meta.url));
  return makeText(await response.json(), language);
}

/**
 * `text(key, values)`: the text with `{name}` replaced by values. With a `count`, a key may have
 * the forms `key.one` and `key.other` instead.
 * @param {Record<string, string>} texts
 * @param {string} language
 */
export function makeText(texts, language) {
  const plural = new Intl.PluralRules(language),
    numbers = new Intl.NumberFormat(language);
  return (key, values = {}) => {
    const form =
      texts[key] == null && values.count != null ? `${key}.${plural.select(values.count)}` : key;
    const found = texts[form];
    if (found == null) {
      // shows in tests and on the page, and breaks neither
      console.error(`texts/${language}.json has no "${form}"`);
      return form;
    }
    return found.replace(/\{(\w+)\}/g, (whole, name) => {
      const value = values[name];
      return value == null
        ? whole
        : typeof value === "number"
          ? numbers.format(value)
          : String(value);
    });
  };
}
