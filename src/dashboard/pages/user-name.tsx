import { type LoginMethod, METHOD_NAMES } from './format.js';
import { paths } from './location.js';
import { Badge } from './parts.js';

export interface NamedUser {
  readonly id: string;
  readonly authMethod: string;
  readonly authValue: string;
  readonly loginMethod: LoginMethod;
  readonly banned: boolean;
  readonly removedAt?: string | null;
}

/** A user as a link, with the login method. A long identity is cut short by the style; the whole is shown on hover. */
export function UserName({ appId, user }: { appId: string; user: NamedUser }) {
  return (
    <span class="user-name">
      <i class={`swatch ${user.loginMethod.toLowerCase()}`} title={METHOD_NAMES[user.loginMethod]} />
      <a href={paths.user(appId, user.id)} title={user.authValue}>
        <bdi>{user.authValue}</bdi>
      </a>
      {user.banned && <Badge tone="bad">banned</Badge>}
      {user.removedAt && <Badge tone="warn">removed</Badge>}
    </span>
  );
}
