import { paths } from './location.js';
import { Empty } from './parts.js';
import { may } from './session.js';

/** The next step for a project without users. */
export function NoUsers({ appId }: { appId: string }) {
  return (
    <Empty title="No users yet.">
      A user is added by the first login that a backend records
      {may('operate') && (
        <>
          , or by an <a href={`${paths.users(appId)}?import=1`}>import</a>
        </>
      )}
      . A backend needs the App ID and one of the <a href={paths.secrets(appId)}>secrets</a>.
    </Empty>
  );
}
