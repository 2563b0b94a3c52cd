/* What the guides do in a browser: samples with the reader's values and in the language of their choice, copying, the list of pages on a phone, the search. */

document.documentElement.classList.add('js');
const demo = JSON.parse(document.querySelector('meta[name=demo]')?.content ?? 'null');

// An address goes into shell commands, so special characters are refused.
const origin = /^https?:\/\/[\w.:[\]-]+$/.test(location.origin) ? location.origin : null;
const values = { ...demo, origin };
for (const place of document.querySelectorAll('[data-fill]')) {
  const value = values[place.dataset.fill];
  if (value) place.textContent = value;
}
if (demo && document.querySelector('[data-fill=appId]')) {
  const note = document.createElement('p');
  note.className = 'note';
  note.textContent = 'The samples have the credentials of the demo project of this machine: copy one, and it works.';
  document.querySelector('h1').after(note);
}

/* The buttons of a sample choose its language without this. Here the choice is made for all samples, and kept for other pages. */
const LANGUAGE = 'userdir-language';
const showIn = (language) => {
  for (const button of document.querySelectorAll('.languages input'))
    if (button.value === language) button.checked = true;
};
try {
  showIn(localStorage.getItem(LANGUAGE));
} catch {
  // The browser keeps nothing for this site: every page begins anew.
}
document.addEventListener('change', ({ target }) => {
  if (!target.matches('.languages input')) return;
  const { top } = target.getBoundingClientRect();
  showIn(target.value);
  // Samples above have become longer or shorter.
  scrollBy(0, target.getBoundingClientRect().top - top);
  try {
    localStorage.setItem(LANGUAGE, target.value);
  } catch {}
});

/** The name of a sample, for those who do not see it. */
const nameOf = (figure) => figure.querySelector('figcaption > span')?.textContent ?? 'the request';
const shownCode = (figure) => [...figure.querySelectorAll('code')].find((code) => code.getClientRects().length > 0);

for (const figure of document.querySelectorAll('figure')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Copy';
  button.setAttribute('aria-label', `Copy: ${nameOf(figure)}`);
  button.onclick = async () => {
    const code = shownCode(figure);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = 'Copied';
    } catch {
      // The clipboard is for safe origins only: what is selected can be copied by hand.
      getSelection().selectAllChildren(code);
      button.textContent = 'Selected';
    }
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 2000);
  };
  figure.querySelector('figcaption').append(button);
}

const menu = document.getElementById('ui-menu');
const pages = document.getElementById('ui-pages');
const showPages = (isOpen) => {
  pages.classList.toggle('open', isOpen);
  menu.setAttribute('aria-expanded', String(isOpen));
};
menu.onclick = () => showPages(!pages.classList.contains('open'));
pages.onclick = ({ target }) => target.closest('a') && showPages(false);

/* The contents at the side show the page, and in it the section that is read. */
const page = pages.querySelector('[aria-current]');
if (page) pages.scrollTop = page.offsetTop - pages.clientHeight / 3;
const entries = [...pages.querySelectorAll('a[href^="#"]')].map((entry) => ({
  entry,
  heading: document.getElementById(entry.hash.slice(1)),
}));
/** Below the bar on top, and what is around a heading. */
const READ_BELOW = 140;
const showSectionRead = () => {
  const read = entries.findLast(({ heading }) => heading.getBoundingClientRect().top < READ_BELOW);
  for (const { entry } of entries) {
    if (entry === read?.entry) entry.setAttribute('aria-current', 'location');
    else entry.removeAttribute('aria-current');
  }
};
document.addEventListener('scroll', showSectionRead, { passive: true });
showSectionRead();

const MOST_FOUND = 12;
const AROUND = 60;
const field = document.getElementById('ui-search');
const found = document.getElementById('ui-found');
const [status, list] = found.children;

/** Address, page, heading and text of each section. It is loaded when it is needed. */
let index;
const loadIndex = () => {
  index ??= fetch('/docs/search.json')
    .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(String(answer.status)))))
    .catch((error) => {
      index = undefined;
      throw error;
    });
  return index;
};

/** What readers say, and the words of these pages for it. */
const SYNONYMS = {
  create: ['register', 'record'],
  signup: ['register'],
  'sign-up': ['register'],
  signin: ['login'],
  erase: ['remove', 'purge'],
  delete: ['remove'],
  gdpr: ['remove', 'purge'],
  block: ['ban'],
  suspend: ['ban'],
  paginate: ['page', 'cursor'],
  pagination: ['page', 'cursor'],
  rotate: ['replace a secret', 'rotate'],
  token: ['secret'],
  'api-key': ['secret'],
  sdk: ['client'],
  sync: ['copy'],
  throttle: ['rate limit', 'limit'],
  event: ['change'],
};

/** The words of a question, each with what means the same. Two words that are one in the list are joined. */
function wordsOf(text) {
  const joined = text.toLowerCase().replaceAll(/\b(sign|api) (up|in|key)\b/g, '$1-$2');
  const words = joined.split(/\s+/).filter(Boolean);
  return words.map((word) => [word, ...(SYNONYMS[word] ?? SYNONYMS[word.replace('-', '')] ?? [])]);
}

/** The contract and the reference say everything, too; a guide says it to a reader. */
const LAST_PAGE = 'Contract of REST';
const REFERENCE = '/docs/reference/';

/** The fit of a section: of each word one form has to be there. A title counts more than any text. */
function scoreOf([address, page, heading, text], words) {
  let score = 0;
  for (const forms of words) {
    const fits = forms.map((form) => fitOf(form, page.toLowerCase(), heading.toLowerCase(), text.toLowerCase()));
    const best = Math.max(0, ...fits.map((fit, at) => (at === 0 ? fit : fit * 0.9)));
    if (best === 0) return 0;
    score += best;
  }
  if (page === LAST_PAGE) return score / 4;
  return address.startsWith(REFERENCE) ? score / 2 : score;
}

function fitOf(word, page, heading, text) {
  const inHeading = heading.indexOf(word);
  const times = text.split(word).length - 1;
  const title =
    heading === word || (heading === '' && page === word) ? 200 : inHeading === 0 ? 100 : inHeading > 0 ? 60 : 0;
  const ofPage = page.includes(word) ? (heading === '' ? 80 : 10) : 0;
  return title + ofPage + Math.min(times, 5);
}

/** Whether one word becomes the other by one letter that is added, left out, replaced or swapped. */
function isOneOff(word, other) {
  if (Math.abs(word.length - other.length) > 1 || word.length < 4) return false;
  let at = 0;
  while (at < word.length && word[at] === other[at]) at += 1;
  const [rest, others] = [word.slice(at), other.slice(at)];
  const isSwapped = rest[0] === others[1] && rest[1] === others[0] && rest.slice(2) === others.slice(2);
  return isSwapped || rest.slice(1) === others.slice(1) || rest.slice(1) === others || rest === others.slice(1);
}

/** The words of a question with the nearest word of the pages in the place of one that stands nowhere. */
function corrected(words, sections) {
  const all = new Set(
    sections.flatMap(
      ([, page, heading, text]) => `${page} ${heading} ${text}`.toLowerCase().match(/[a-z][a-z-]{2,}/g) ?? [],
    ),
  );
  const isThere = (form) =>
    sections.some((section) => fitOf(form, ...section.slice(1).map((text) => text.toLowerCase())) > 0);
  return words.map((forms) => {
    if (forms.some(isThere)) return forms;
    return [...all]
      .filter((other) => isOneOff(forms[0], other))
      .flatMap((other) => [other, ...(SYNONYMS[other] ?? [])]);
  });
}

/** Text with the words marked. */
function marked(text, words) {
  const escaped = words.map((word) => word.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return text.split(new RegExp(`(${escaped.join('|')})`, 'i')).map((part, at) => {
    if (at % 2 === 0) return part;
    const mark = document.createElement('mark');
    mark.textContent = part;
    return mark;
  });
}

function showSection([address, page, heading, text], words) {
  const item = document.createElement('li');
  const link = document.createElement('a');
  link.href = address;
  const title = document.createElement('strong');
  title.append(...marked(heading ? `${page} › ${heading}` : page, words));
  const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0);
  const start = Math.min(...places, text.length) - AROUND;
  // At the beginning of a word.
  const from = places.length === 0 || start <= 0 ? 0 : text.indexOf(' ', start) + 1;
  const part = document.createElement('span');
  part.append(from > 0 ? '…' : '', ...marked(text.slice(from, from + 3 * AROUND), words), '…');
  link.append(title, part);
  item.append(link);
  return item;
}

async function search() {
  let words = wordsOf(field.value);
  found.hidden = words.length === 0;
  if (words.length === 0) return;
  const asked = field.value;
  try {
    const sections = await loadIndex();
    if (field.value !== asked) return;
    words = corrected(words, sections);
    const fitting = sections
      .map((section) => ({ section, score: scoreOf(section, words) }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score);
    const shown = fitting.slice(0, MOST_FOUND);
    list.replaceChildren(...shown.map(({ section }) => showSection(section, words.flat())));
    const number = `${fitting.length} ${fitting.length === 1 ? 'section' : 'sections'}`;
    status.textContent = fitting.length === 0 ? 'Nothing found.' : number;
  } catch {
    list.replaceChildren();
    status.textContent = 'The search could not be loaded. Is the service running?';
  }
}

field.oninput = search;
field.onfocus = search;
list.onclick = () => {
  found.hidden = true;
};

document.addEventListener('keydown', (event) => {
  const { key, target } = event;
  const isTyping = target.matches('input, textarea');
  if (key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    field.select();
  }
  if (key === 'Escape' && !found.hidden) {
    field.focus();
    found.hidden = true;
  }
  if (!['ArrowDown', 'ArrowUp'].includes(key) || found.hidden || !target.closest('search')) return;
  event.preventDefault();
  const stops = [field, ...list.querySelectorAll('a')];
  const at = stops.indexOf(target) + (key === 'ArrowDown' ? 1 : -1);
  stops[Math.min(Math.max(at, 0), stops.length - 1)].focus();
});
field.onkeydown = ({ key }) => {
  if (key === 'Enter') list.querySelector('a')?.click();
};
document.addEventListener('click', ({ target }) => {
  if (!target.closest('search')) found.hidden = true;
});
