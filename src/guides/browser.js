/* What the guides do in a browser: samples with the reader's values, copying, the list of pages on a phone, the search. */

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

for (const figure of document.querySelectorAll('figure')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Copy';
  button.setAttribute('aria-label', `Copy: ${figure.querySelector('figcaption').firstChild.textContent}`);
  const code = figure.querySelector('code');
  button.onclick = async () => {
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

/** The fit of a section: every word has to be there. Headings count more than text. */
function scoreOf([, page, heading, text], words) {
  let score = 0;
  for (const word of words) {
    const inHeading = heading.toLowerCase().indexOf(word);
    const times = text.toLowerCase().split(word).length - 1;
    if (inHeading < 0 && times === 0 && !page.toLowerCase().includes(word)) return 0;
    score += (inHeading === 0 ? 30 : inHeading > 0 ? 20 : 0) + Math.min(times, 5) + 1;
    if (heading.toLowerCase() === word) score += 30;
  }
  return score;
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
  const start = Math.max(0, Math.min(...places, text.length) - AROUND);
  const from = places.length === 0 ? 0 : start;
  const part = document.createElement('span');
  part.append(from > 0 ? '…' : '', ...marked(text.slice(from, from + 3 * AROUND), words), '…');
  link.append(title, part);
  item.append(link);
  return item;
}

async function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = words.length === 0;
  if (words.length === 0) return;
  const asked = field.value;
  try {
    const sections = await loadIndex();
    if (field.value !== asked) return;
    const fitting = sections
      .map((section) => ({ section, score: scoreOf(section, words) }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score);
    const shown = fitting.slice(0, MOST_FOUND);
    list.replaceChildren(...shown.map(({ section }) => showSection(section, words)));
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
