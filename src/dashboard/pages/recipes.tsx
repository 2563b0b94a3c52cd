import { useState } from 'preact/hooks';
import { Dialog } from './dialog.js';
import { Copy } from './parts.js';

/** The same question or change without the dashboard. What a way cannot do, it leaves out. */
export interface Recipe {
  /** Of the project's API, at /graphql. */
  readonly graphql?: { readonly operation: string; readonly variables?: object };
  /** A request to the project's API. */
  readonly curl?: CurlRequest;
  /** The arguments of `userdir`. */
  readonly userdir?: readonly string[];
}

export interface CurlRequest {
  readonly path: string;
  readonly method?: string;
}

/** A word for a POSIX shell. */
const quote = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

const curlLine = ({ path, method }: CurlRequest) =>
  `curl -s ${method ? `-X ${method} ` : ''}-u "$APP_ID:$APP_SECRET" ${quote(location.origin + path)}`;

const curlGraphql = (body: object) =>
  `curl -s -u "$APP_ID:$APP_SECRET" -H 'content-type: application/json' ${quote(`${location.origin}/graphql`)} -d ${quote(JSON.stringify(body))}`;

/** The line that the first request of a new project needs. */
export const firstRequest = (appId: string, appSecret: string) =>
  `curl -s -u ${quote(`${appId}:${appSecret}`)} ${quote(`${location.origin}/server/users/count`)}`;

function ways({ graphql, curl, userdir }: Recipe): { name: string; text: string }[] {
  const found: { name: string; text: string }[] = [];
  if (graphql) {
    const { operation, variables } = graphql;
    const shown = variables ? `${operation}\n\n# Variables\n${JSON.stringify(variables, null, 2)}` : operation;
    found.push({ name: 'GraphQL', text: shown });
    if (!curl) found.push({ name: 'curl', text: curlGraphql({ query: operation, ...(variables && { variables }) }) });
  }
  if (curl) found.push({ name: 'curl', text: curlLine(curl) });
  if (userdir) found.push({ name: 'userdir', text: `userdir ${userdir.map(quote).join(' ')}` });
  return found;
}

function Recipes({ recipe }: { recipe: Recipe }) {
  return (
    <>
      {ways(recipe).map(({ name, text }) => (
        <figure class="recipe" key={name}>
          <figcaption>
            {name} <Copy text={text} what={`the ${name} version`} />
          </figcaption>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable by keyboard */}
          <pre tabIndex={0}>{text}</pre>
        </figure>
      ))}
    </>
  );
}

/** A button that shows what the screen shows as GraphQL, curl or `userdir`. */
export function SameByApi({ recipe }: { recipe: Recipe }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        <span aria-hidden="true">{'</>'}</span> API
      </button>
      {open && (
        <Dialog title="The same without the dashboard" onClose={() => setOpen(false)}>
          <Recipes recipe={recipe} />
          {(recipe.curl || recipe.graphql) && (
            <p class="quiet">
              <code>APP_ID</code> and <code>APP_SECRET</code> are those of the project.
            </p>
          )}
        </Dialog>
      )}
    </>
  );
}

/** The same inside of a dialog. */
export function SameByApiDetails({ recipe }: { recipe: Recipe }) {
  return (
    <details class="recipes">
      <summary>
        The same as{' '}
        {ways(recipe)
          .map(({ name }) => name)
          .join(', ')}
      </summary>
      <Recipes recipe={recipe} />
    </details>
  );
}
