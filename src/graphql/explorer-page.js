/* Makes dist/graphql/explorer.html.gz: GraphiQL as one page, without its options and with what it lacks. Its package has each asset twice and would be a twelfth of an installation. */
import { rename, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { renderGraphiQL } from '@graphql-yoga/render-graphiql';

const options = { title: 'userdir', favicon: 'data:,' };
// explorer.ts puts the options there.
const page = renderGraphiQL(options).replace(`${JSON.stringify(options)},`, () => `(${complete})(__OPTIONS__),`);
if (!page.includes('__OPTIONS__')) throw new Error('GraphiQL takes its options in another way.');
const file = new URL('../../dist/graphql/explorer.html.gz', import.meta.url);
// A build that is killed here must not leave a half of it.
const part = new URL('explorer.part', file);
await writeFile(part, gzipSync(page, { level: 9 }));
await rename(part, file);

/**
 * Runs in the browser. Opens what a link asks for as a tab, with its variables, and otherwise the tab that was open, and keeps it in view.
 * `extensions.docs` of an answer becomes a link.
 */
function complete(options) {
  const { tabs = [], activeTabIndex } = JSON.parse(localStorage.getItem('graphiql:tabState') ?? '{}');
  const asked = Object.fromEntries(new URLSearchParams(location.search));
  const active = tabs[activeTabIndex];
  // GraphiQL writes the query of the tab that is open into the address.
  const { query, variables } = active && [undefined, active.query].includes(asked.query) ? active : asked;
  if (query) options.defaultTabs.unshift({ query, variables, headers: options.headers });

  let shown;
  new MutationObserver(() => {
    let [code, begins] = [undefined, true];
    // From the end, because a narrow window cuts the address into lines.
    for (const part of [...document.querySelectorAll('.result-window .view-line span span')].reverse()) {
      code = /errors#([A-Z_]+)"$/.exec(part.textContent)?.[1] ?? (begins ? undefined : code);
      begins = part.textContent.startsWith('"');
      part.classList.toggle('error-docs', code !== undefined);
      part.dataset.code = code;
    }
    const tab = document.querySelector('.graphiql-tab-active');
    if (tab !== shown) tab?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    shown = tab;
  }).observe(document.body, { childList: true, subtree: true, attributeFilter: ['class'] });
  // The editor captures the pointer, and draws its cursor there.
  document.addEventListener('click', ({ clientX, clientY }) => {
    const part = document.elementsFromPoint(clientX, clientY).find((each) => each.matches('.error-docs'));
    if (part) open(`/docs/errors#${part.dataset.code}`);
  });
  return { ...options, query, variables };
}
