import { COMMANDS, type Commands, type Value } from '#dist/cli/commands.js';
import { type Document as Operation, type Sent, sentOf } from '#dist/dashboard/documents.js';
import { Dialog } from './dialog.js';
import { send } from './graphql.js';
import { Button, CopyBlock } from './parts.js';

/** A question or change without the dashboard. Ways that cannot do it are left out. */
export interface Recipe {
  /** Of the project's API, at /graphql. */
  readonly graphql?: { readonly operation: string; readonly variables?: object };
  readonly curl?: { readonly path: string; readonly method?: string };
  readonly userdir?: CommandLine;
}

/** The words of a command line, which only `command` makes. */
interface CommandLine {
  readonly words: readonly string[];
}

/** The build makes the table of the commands from their rows (command-table.js). */
export function command<Name extends keyof Commands>(name: Name, values: Commands[Name]): CommandLine {
  const given: Readonly<Record<string, Value | boolean | undefined>> = { ...values };
  const words = Object.entries(COMMANDS[name]).flatMap(([key, flag]) => {
    const value = given[key] ?? false;
    if (typeof value === 'boolean') return value && flag !== null ? [flag] : [];
    return [value].flat().flatMap((each) => [...(flag === null ? [] : [flag]), String(each)]);
  });
  return { words: [...name.split(' '), ...words] };
}

/** What a page asks in a project, which is how a backend asks it. */
export const asked = <Result, Variables>(operation: Operation<Result, Variables>, variables: Variables) =>
  asSent(sentOf(operation, variables));

const asSent = ({ query, variables }: Sent) => ({ graphql: { operation: query, variables } });

/** What a dialog does, and its recipe. */
export interface Sending<Result> {
  readonly work: () => Promise<Result>;
  readonly recipe: Recipe | readonly Recipe[];
}

/** What a dialog does: it sends an operation, which is its recipe too where backends can ask it, beside the command that does the same. */
export function sending<Result, Variables>(
  operation: Operation<Result, Variables>,
  variables: Variables,
  userdir: CommandLine,
): Sending<Result> {
  const sent = sentOf(operation, variables);
  return {
    work: () => send(operation, variables),
    recipe: { ...(sent.project !== undefined && asSent(sent)), userdir },
  };
}

const VARIABLES = 'GraphQL variables';

/** A word for a POSIX shell. */
const quote = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

const curlLine = ({ path, method }: NonNullable<Recipe['curl']>) =>
  `curl -s ${method ? `-X ${method} ` : ''}-u "$APP_ID:$APP_SECRET" ${quote(location.origin + path)}`;

const curlGraphql = (body: object) =>
  `curl -s -u "$APP_ID:$APP_SECRET" -H 'content-type: application/json' ${quote(`${location.origin}/graphql`)} -d ${quote(JSON.stringify(body))}`;

/** The line that the first request of a new project needs. */
export const firstRequest = (appId: string, appSecret: string) =>
  `curl -s -u ${quote(`${appId}:${appSecret}`)} ${quote(`${location.origin}/server/users/count`)}`;

type Way = readonly [name: string, text: string];

/** Each is complete when pasted: an operation and its variables go into two editors, so they are two. */
function ways({ graphql, curl, userdir }: Recipe): Way[] {
  const list: Way[] = [];
  if (graphql) {
    const { operation, variables } = graphql;
    list.push(['GraphQL', operation]);
    if (variables) list.push([VARIABLES, JSON.stringify(variables, null, 2)]);
    if (!curl) list.push(['curl', curlGraphql({ query: operation, ...(variables && { variables }) })]);
  }
  if (curl) list.push(['curl', curlLine(curl)]);
  if (userdir) list.push(['userdir', `userdir ${userdir.words.map(quote).join(' ')}`]);
  return list;
}

/** The ways of several recipes, those of one name below one another. */
function waysOf(recipes: readonly Recipe[]): Way[] {
  const texts = new Map<string, string>();
  for (const [name, text] of recipes.flatMap(ways))
    texts.set(name, texts.has(name) ? `${texts.get(name)}\n${text}` : text);
  return [...texts];
}

function Recipes({ recipes }: { recipes: readonly Recipe[] }) {
  const needsSecret = recipes.some(({ curl, graphql }) => curl || graphql);
  return (
    <>
      {waysOf(recipes).map(([name, text]) => (
        <CopyBlock key={name} name={name} text={text} what={`the ${name} version`} />
      ))}
      <p class="quiet note">
        {needsSecret && (
          <>
            <code>APP_ID</code> and <code>APP_SECRET</code> are those of the project.{' '}
          </>
        )}
        {recipes.some(({ userdir }) => userdir) && (
          <>
            <code>userdir</code> has the settings of the service; in a checkout it is <code>npm run -s userdir --</code>
            .
          </>
        )}
      </p>
    </>
  );
}

/** A button that shows what the screen shows as GraphQL, curl or `userdir`. */
export function SameByApi({ recipe }: { recipe: Recipe }) {
  const all = (
    <Dialog title="The same without the dashboard">
      <Recipes recipes={[recipe]} />
    </Dialog>
  );
  const label = (
    <>
      <span aria-hidden="true">{'</>'}</span> API
    </>
  );
  return <Button label={label} opens={all} />;
}

/** Recipes inside of a dialog, for one change or for many. */
export function SameByApiDetails({ recipe }: { recipe: Recipe | readonly Recipe[] }) {
  const recipes = [recipe].flat();
  return (
    <details class="recipes">
      <summary>
        The same with{' '}
        {waysOf(recipes)
          .map(([name]) => name)
          .filter((name) => name !== VARIABLES)
          .join(', ')}
      </summary>
      <Recipes recipes={recipes} />
    </details>
  );
}
