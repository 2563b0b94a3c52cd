import { Copy } from './parts.js';
import { firstRequest } from './recipes.js';

/** A new App Secret, which is shown only here, with a first request that works when pasted. */
export function SecretOnce({ appId, appSecret }: { appId: string; appSecret: string }) {
  const line = firstRequest(appId, appSecret);
  return (
    <div class="secret-once">
      <p>
        <strong>Copy the App Secret now.</strong> It is not stored, and cannot be shown again.
      </p>
      <dl class="facts">
        <dt>App ID</dt>
        <dd>
          <code>{appId}</code> <Copy text={appId} what="the App ID" />
        </dd>
        <dt>App Secret</dt>
        <dd>
          <code>{appSecret}</code> <Copy text={appSecret} what="the App Secret" />
        </dd>
      </dl>
      <figure class="recipe">
        <figcaption>
          A first request <Copy text={line} what="the first request" />
        </figcaption>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable by keyboard */}
        <pre tabIndex={0}>{line}</pre>
      </figure>
    </div>
  );
}
