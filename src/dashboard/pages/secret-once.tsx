import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog } from './dialog.js';
import { Copy } from './parts.js';
import { firstRequest } from './recipes.js';

interface SecretDialogProps {
  readonly title: string;
  readonly appId: string;
  readonly appSecret: string;
  /** Only a secret with the scope `read` may count users, as the first request does. */
  readonly mayRead?: boolean;
  readonly onClose: () => void;
  /** The buttons. They close it without a question. */
  readonly children: ComponentChildren;
}

/**
 * A new App Secret, which is shown only here, with a first request that works when pasted. Escape and ✕ ask once before they
 * close it, unless the secret was copied: what is lost here cannot be shown again.
 */
export function SecretDialog({ title, appId, appSecret, mayRead = true, onClose, children }: SecretDialogProps) {
  const [state, setState] = useState<'shown' | 'asked' | 'copied'>('shown');
  const line = firstRequest(appId, appSecret);
  const copied = () => setState('copied');
  return (
    <Dialog title={title} onClose={() => (state === 'shown' ? setState('asked') : onClose())}>
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
          <dd class="secret-value">
            <code>{appSecret}</code> <Copy text={appSecret} what="the App Secret" onCopied={copied} />
          </dd>
        </dl>
        {mayRead && (
          <figure class="recipe">
            <figcaption>
              A first request <Copy text={line} what="the first request" onCopied={copied} />
            </figcaption>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable by keyboard */}
            <pre tabIndex={0}>{line}</pre>
          </figure>
        )}
        {state === 'asked' && (
          <p class="banner warn" role="alert">
            The App Secret has not been copied. Copy it, or close again to give it up.
          </p>
        )}
      </div>
      <div class="dialog-actions">{children}</div>
    </Dialog>
  );
}
