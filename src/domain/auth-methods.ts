import type { LoginMethod } from './users.js';

/** The methods that are kinds of login themselves, which are counted. Others are names of providers. */
export const COUNTED_METHODS = Object.keys({
  email: true,
  passkey: true,
  wallet: true,
} satisfies Record<Exclude<LoginMethod, 'socials'>, true>) as readonly Exclude<LoginMethod, 'socials'>[];

const OR_PROVIDER = 'or the name of a social provider';
/** What a method may be, within a sentence. */
export const METHOD_FORM = `${COUNTED_METHODS.join(', ')}, ${OR_PROVIDER}`;
/** The same in Markdown. */
export const METHOD_FORM_IN_CODE = `${COUNTED_METHODS.map((method) => `\`${method}\``).join(', ')}, ${OR_PROVIDER}`;

/** Each login method and well-known provider, with its names in other systems. Names made by a rule (`oauth_google`) or by a company (`okta`) are not here. */
export const AUTH_METHODS: Readonly<Record<string, readonly string[]>> = {
  email: [
    'mail',
    'mails',
    'emailaddress',
    'emailcode',
    'emaillink',
    'emailotp',
    'emailpassword',
    'magiclink',
    'password',
  ],
  passkey: ['fido', 'fido2', 'securitykey', 'webauthn'],
  wallet: ['ethereum', 'metamask', 'siwe', 'stellar', 'walletconnect', 'web3'],
  amazon: [],
  apple: ['appleid', 'appleidapple'],
  bitbucket: [],
  discord: ['discordapp'],
  facebook: ['fb'],
  farcaster: [],
  github: [],
  gitlab: [],
  google: ['accountsgoogle', 'gmail', 'googleplus'],
  instagram: [],
  kakao: ['kakaotalk'],
  line: [],
  linkedin: [],
  microsoft: ['azure', 'azuread', 'live', 'loginmicrosoftonline', 'microsoftonline', 'windowslive'],
  naver: [],
  paypal: [],
  reddit: [],
  slack: [],
  spotify: [],
  steam: [],
  telegram: [],
  tiktok: [],
  twitch: ['twitchtv'],
  twitter: ['twitter2', 'x'],
  vk: ['vkontakte'],
  wechat: ['weixin'],
  weibo: ['sinaweibo'],
  yahoo: ['ymail'],
  yandex: [],
};

const NAMES = Object.keys(AUTH_METHODS);
const NAME_OF = new Map(NAMES.flatMap((name) => [name, ...(AUTH_METHODS[name] ?? [])].map((other) => [other, name])));
/** Names that other providers have, and that are one letter away from another by chance. */
const REAL_NAMES = new Set(['switch', 'wallee', 'wallex']);
/** Too many other names are one letter away from a shorter one. */
const LONG_NAMES = NAMES.filter((name) => name === 'email' || name.length >= 6);
/** Systems put these before and after the name of a provider. */
const AROUND =
  /^(?:(?:oauth2?|oidc|openid|social|(?:log|sign)[ ._-]?in[ ._-]?with)[ ._-]?)?(.+?)(?:[ ._-]?(?:oauth2?|oidc|openid[ ._-]?connect)|\.com)?$/;

/** The address of a provider of OpenID Connect. */
const ISSUER = /^https?:\/\/([^/:]+)/;
/** What other systems call the method `phone`. A project may have logins with these names as well. */
const PHONES = new Set(['mobile', 'phonenumber', 'sms', 'tel']);
/** A phone number with its country: E.164. */
export const PHONE_NUMBER = /^\+[1-9]\d{6,14}$/;

/** The one name here of a method or a provider of another system: `google` of `google-oauth2`. */
export function methodNamed(text: string): string {
  const trimmed = text.trim().toLowerCase();
  const lower = ISSUER.exec(trimmed)?.[1] ?? trimmed;
  const bare = bareName(lower);
  if (PHONES.has(bare)) return 'phone';
  return NAME_OF.get(bare) ?? lower.replace(/[^a-z0-9._-]+/g, '-').replace(/^[^a-z0-9]+|(?<!-)-+$/g, '');
}

const bareName = (lower: string) => AROUND.exec(lower)?.[1]?.replace(/[ ._-]/g, '') ?? '';

/** The method that is meant by another spelling, or `socials` for any provider; null where the text is the name of a method. */
export function methodMeant(text: string): string | null {
  if (Object.hasOwn(AUTH_METHODS, text)) return null;
  const lower = text.toLowerCase();
  if (/^socials?$/.test(lower)) return 'socials';
  const bare = bareName(lower);
  if (REAL_NAMES.has(bare)) return null;
  return NAME_OF.get(bare) ?? LONG_NAMES.find((name) => isLike(bare, name)) ?? null;
}

/** True if a letter of the name is missing, added or another one, or two are swapped. */
function isLike(text: string, name: string): boolean {
  let start = 0;
  while (start < name.length && text[start] === name[start]) start += 1;
  let end = 0;
  while (end < Math.min(text.length, name.length) - start && text.at(-1 - end) === name.at(-1 - end)) end += 1;
  const [wrong, right] = [text.slice(start, text.length - end), name.slice(start, name.length - end)];
  const isSwapped = wrong.length === 2 && right.length === 2 && wrong === `${right[1]}${right[0]}`;
  return isSwapped || Math.max(wrong.length, right.length) <= 1;
}
