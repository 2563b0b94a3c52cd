import { domainToASCII } from 'node:url';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AUTH_METHODS, methodMeant } from '#dist/domain/auth-methods.js';
import { parseBanReason } from '#dist/domain/bans.js';
import {
  foldEmail,
  type Identity,
  type ProfileInput,
  parseIdentity,
  parsePrefix,
  parseProfile,
} from '#dist/domain/identities.js';
import { ofKeptTexts } from '#dist/domain/kept-texts.js';
import { camelCase, snakeCase } from '#dist/domain/spelling.js';
import { checksumAddress } from '#dist/domain/wallets.js';
import { AppError } from '#dist/errors.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';

/** Text of letters that fold or decompose, and of other characters. */
const text = fc.string({
  unit: fc.constantFrom(...'aAzZ09.+-_@ \t"éÉßİıÅΩσςΣǅﬁ', 'e\u0301', 'I\u0307', '\u212a', '𝒜', '😀'),
});
const emailLike = fc.tuple(text, text).map(([mailbox, domain]) => `${mailbox}@${domain}`);

const identity = (authMethod: string, authValue: string): Identity =>
  parseIdentity({ authMethod, authValue }, snakeCase);
const profile = (input: ProfileInput) => parseProfile(input, snakeCase);
const passkey = { authMethod: 'passkey', authValue: 'key' };
const stellar = (number: number) => ({ network: 'stellar' as const, publicKey: stellarAddress(number) });

/** The message of the refusal; throws if `parse` succeeds or fails with another error. */
function refusal(parse: () => unknown): string {
  try {
    parse();
  } catch (error) {
    if (error instanceof AppError && error.code === 'BAD_USER_INPUT') return error.message;
    throw error;
  }
  throw new Error('It was accepted.');
}

const INVISIBLE = [
  '\u200b',
  '\u200d',
  '\u2060',
  '\ufeff',
  '\u00ad',
  '\u034f',
  '\ufe0f',
  '\u202e',
  '\u3164',
  '\u{e0041}',
];

describe('an email', () => {
  const domain = fc
    .array(fc.string({ unit: fc.constantFrom(...'abz09üéñ例子ж'), minLength: 1, maxLength: 12 }), {
      minLength: 1,
      maxLength: 4,
    })
    .map((labels) => labels.join('.'));

  test('folds to the same text with its domain in Unicode, in Punycode, in any case and with other dots', () => {
    fc.assert(
      fc.property(domain, (name) => {
        const ascii = domainToASCII(name);
        fc.pre(ascii !== '' && !/^[\d.]+$/.test(ascii));
        const folded = foldEmail(`ada@${name}`);
        expect(folded).not.toBeNull();
        for (const spelling of [ascii, ascii.toUpperCase(), name.toUpperCase(), name.replaceAll('.', '\u3002')]) {
          expect(foldEmail(`ADA@${spelling}`)).toBe(folded);
        }
        expect(foldEmail(folded as string)).toBe(folded);
      }),
    );
  });

  test.each([
    ['ada@xn--bcher-kva.example', 'ada@bücher.example'],
    ['Ada@XN--BCHER-KVA.example', 'ada@bücher.example'],
    ['ada@ｅxample.com', 'ada@example.com'],
    ['ada@bücher\u3002example', 'ada@bücher.example'],
    ['ada@exam\u00adple.com', 'ada@example.com'],
    ['ada@faß.example', 'ada@faß.example'],
    ['ada@xn--fa-hia.example', 'ada@faß.example'],
    ['ada@FAẞ.example', 'ada@faß.example'],
    ['ada@ΝΙΚΟΣ.example', 'ada@νικοσ.example'],
    ['ada@νικος.example', 'ada@νικος.example'],
    ['ada@xn--uxachkp.example', 'ada@νικος.example'],
    ['ada@İstanbul.example', 'ada@i̇stanbul.example'],
    ['ada@１２７.１', 'ada@127.1'],
    ['ada@127.1', 'ada@127.1'],
  ])('%j folds to the IDNA form of its domain: %j', (email, folded) => {
    expect(foldEmail(email)).toBe(folded);
  });

  test.each([
    ...'xn--a.example xn--example-.com a℀b.example bü¨x.example bü%41.example bü/x bü?x bü#x bü:80'.split(' '),
    'bü\\x',
    'bücher.example.',
  ])('is invalid with a domain that IDNA refuses: %s', (name) => {
    expect(foldEmail(`ada@${name}`)).toBeNull();
  });

  test.each(INVISIBLE)(
    'is invalid with %j in its mailbox, because an invisible character could evade a ban',
    (character) => {
      expect(foldEmail(`a${character}da@example.com`)).toBeNull();
      expect(foldEmail(`a${character}@example.com`)).toBeNull();
      expect([null, 'ada@example.com']).toContain(foldEmail(`ada@exam${character}ple.com`));
    },
  );

  test('begins with the fold of each of its beginnings', () => {
    const letter = fc.constantFrom(...'aAzσςΣİIıßẞéÉ中Ж09', 'e\u0301', 'ὈΔΣ');
    const part = fc.string({ unit: letter, maxLength: 8 });
    fc.assert(
      fc.property(part, part, part, part, (a, b, c, d) => {
        const email = foldEmail(`x${a}${b}@y${c}${d}.example`);
        for (const prefix of [`x${a}`, `x${a}${b}@`, `x${a}${b}@y${c}`])
          expect(email?.startsWith(parsePrefix('prefix', prefix).folded)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  test('that is too long is refused quickly, without normalisation', () => {
    const marks = '\u0323\u0307'.repeat(5_000_000);
    expect(foldEmail(`a${marks}@example.com`)).toBeNull();
    expect(refusal(() => identity('google', `a${marks}`))).toMatch(/^auth_value: got /);
  });

  test('that is already folded does not change', () => {
    fc.assert(
      fc.property(fc.oneof(emailLike, fc.emailAddress(), fc.string({ unit: 'binary' })), (email) => {
        const folded = foldEmail(email);
        if (folded !== null) expect(foldEmail(folded)).toBe(folded);
      }),
    );
  });

  test('folds to the same text composed and decomposed', () => {
    fc.assert(
      fc.property(emailLike, (email) => {
        expect(foldEmail(email.normalize('NFD'))).toBe(foldEmail(email.normalize('NFC')));
      }),
    );
  });

  test.each([
    ['Ada@Example.COM', 'ada@example.com'],
    ['ÉLODIE@exämple.com', 'élodie@exämple.com'],
    ['E\u0301lodie@example.com', 'élodie@example.com'],
    ['a@localhost', 'a@localhost'],
    ['a+tag.b_c-d@sub.example.co', 'a+tag.b_c-d@sub.example.co'],
    ['用户@例子.广告', '用户@例子.广告'],
    [`${'a'.repeat(64)}@example.com`, `${'a'.repeat(64)}@example.com`],
  ])('%j is valid and folds to %j', (email, folded) => {
    expect(foldEmail(email)).toBe(folded);
  });

  test.each([
    ['empty', ''],
    ['only white space', ' \n'],
    ['without @', 'ada.example.com'],
    ['with two @', 'ada@home@example.com'],
    ['without a mailbox', '@example.com'],
    ['without a domain', 'ada@'],
    ['with white space inside', 'ada lovelace@example.com'],
    ['with a line break inside', 'ada@example.com\nbcc:eve@example.com'],
    ['with a NUL', 'ada\0@example.com'],
    ['with a lone surrogate', 'ada\ud800@example.com'],
    ['with a quoted mailbox', '"ada"@example.com'],
    ['with an empty domain label', 'ada@example..com'],
    ['with a domain that starts with a dot', 'ada@.example.com'],
    ['with a domain that ends with a dot', 'ada@example.com.'],
    ['with a mailbox of 65 characters', `${'a'.repeat(65)}@example.com`],
    ['of 321 characters', `a@${'b'.repeat(319)}`],
  ])('%s is invalid', (_name, email) => {
    expect(foldEmail(email)).toBeNull();
  });
});

describe('an identity', () => {
  test('that is parsed again from its key or its value is the same', () => {
    const value = fc.oneof(
      text,
      emailLike,
      fc.emailAddress(),
      fc.constantFrom(stellarAddress(1), checksumAddress(ethereumAddress(1))),
    );
    fc.assert(
      fc.property(fc.constantFrom('email', 'passkey', 'wallet', 'google'), value, (method, given) => {
        let parsed: Identity;
        try {
          parsed = identity(method, given);
        } catch {
          return;
        }
        expect(identity(method, parsed.authValueKey).authValueKey).toBe(parsed.authValueKey);
        expect(identity(method, parsed.authValue)).toEqual(parsed);
      }),
    );
  });

  test('is the same composed and decomposed, for every method with text values', () => {
    fc.assert(
      fc.property(fc.constantFrom('passkey', 'google'), text, (method, given) => {
        fc.pre(given.trim() !== '' && !/\t/.test(given.trim()));
        expect(identity(method, given.normalize('NFD'))).toEqual(identity(method, given.normalize('NFC')));
      }),
    );
  });

  test.each(['', ' ', 'Email', 'goo gle', '-x', '.x', 'x\n', 'gоogle', 'x\0', 'a'.repeat(65)])(
    'may not have the method %j',
    (method) => {
      expect(refusal(() => identity(method, 'ada@example.com'))).toMatch(/^auth_method: got /);
    },
  );

  test.each([
    'email emial e-mail mail emails Email e_mail imail emaill emai password email-link',
    'passkey passkeys pass-key webauthn paskey PassKey passkye',
    'wallet wallets siwe ethereum stellar walet Wallet wallte wallet-connect',
    'google google.com google-oauth2 oauth_google google_oauth Google gogle gmail SignInWithGoogle',
    'apple apple.com oauth_apple SignInWithApple apple_oauth sign-in-with-apple',
    'microsoft azure windowslive microsoft.com oauth_microsoft',
    'twitter x oauth_x twitter.com twitter_oauth x.com',
    'linkedin linkedin_oidc linkedin-openid-connect linked-in',
    'github github.com oauth_github githb git-hub',
    'amazon LoginWithAmazon',
  ])('may have the first of these as its method, and no other: %s', (names) => {
    const [meant = '', ...spellings] = names.split(' ');
    expect(identity(meant, meant === 'wallet' ? stellarAddress(1) : 'ada@example.com').authMethod).toBe(meant);
    for (const spelling of spellings)
      expect(refusal(() => identity(spelling, 'ada@example.com'))).toBe(
        `auth_method: got "${spelling}", expected email, passkey, wallet, or the name of a social provider of at most 64 lower-case letters, digits, "." "_" "-"; did you mean "${meant}"? Another provider needs a name that is less alike, such as "acme-login".`,
      );
  });

  test.each(['social', 'socials'])('may not have the method %s, which is that of no provider', (method) => {
    expect(refusal(() => identity(method, '1'))).toContain('did you mean the name of the provider, such as "google"?');
  });

  test.each([
    ...'phone username guest anonymous saml sso oidc entra okta mailru mail.ru passage switch'.split(' '),
    ...'wallee shopify discogs disqus livechat mailchimp linear lime box acme-email oauth_acme acme.com'.split(' '),
  ])('may have the method %s, which only looks like another', (method) => {
    expect(identity(method, '1').authMethod).toBe(method);
  });

  test('may have every name of the table of methods, and none of those that it gives for other systems', () => {
    for (const [name, others] of Object.entries(AUTH_METHODS)) {
      expect(methodMeant(name)).toBeNull();
      for (const other of [...others, `oauth_${name}`, `${name}-oauth2`, `${name}.com`])
        expect(methodMeant(other)).toBe(name);
    }
  });

  test.each([
    ['nothing', ''],
    ['white space', ' \t '],
    ['a NUL', 'a\0b'],
    ['a line break', 'a\nb'],
    ['a lone surrogate', 'a\udc00b'],
    ['1,501 bytes', 'a'.repeat(1_501)],
    ['1,501 bytes in fewer characters', `${'é'.repeat(750)}a`],
  ])('may not have the value: %s', (_name, value) => {
    expect(refusal(() => identity('passkey', value))).toMatch(/^auth_value: got .*, expected text of 1 to 1500 bytes/);
  });

  test.each(INVISIBLE)('may not have %j in its value, for any method', (character) => {
    for (const method of ['email', 'passkey', 'google']) {
      for (const value of [`a${character}da@example.com`, `1${character}2`]) {
        expect(refusal(() => identity(method, value))).toMatch(/^auth_value: got /);
      }
    }
  });

  test('may have a value of 1,500 bytes, however it is composed', () => {
    for (const form of ['NFC', 'NFD'])
      expect(identity('passkey', 'é'.repeat(750).normalize(form)).authValueKey).toBe('é'.repeat(750));
    // NFC takes this letter apart.
    expect(identity('passkey', '\u0958'.repeat(250)).authValueKey).toBe('\u0958'.normalize('NFC').repeat(250));
    expect(refusal(() => identity('passkey', '\u0958'.repeat(251)))).toContain('expected text of 1 to 1500 bytes');
  });
});

describe('the reason of a ban', () => {
  const composed = '\u0958'.normalize('NFC');
  test.each([
    ['500 letters', 'é'.repeat(500), 'é'.repeat(500)],
    ['500 letters that are decomposed', 'é'.repeat(500).normalize('NFD'), 'é'.repeat(500)],
    ['letters that NFC takes apart, with 500 characters then', '\u0958'.repeat(250), composed.repeat(250)],
    ['500 characters of two units', '😀'.repeat(500), '😀'.repeat(500)],
  ])('may have %s', (_what, text, stored) => {
    expect(parseBanReason('reason', text)).toBe(stored);
    expect(parseBanReason('reason', stored)).toBe(stored);
  });

  test.each([
    ['501 letters', 'é'.repeat(501)],
    ['letters that NFC takes apart, with more than 500 characters then', '\u0958'.repeat(251)],
    ['501 characters of two units', '😀'.repeat(501)],
    ['millions of marks, which are not even normalised', '\u0323\u0307'.repeat(5_000_000)],
  ])('may not have %s', (_what, text) => {
    expect(refusal(() => parseBanReason('reason', text))).toContain('expected text of at most 500 characters');
  });
});

describe('the login email of a profile', () => {
  test.each<[string, ProfileInput, string | null]>([
    ['of an email login is its value', { authMethod: 'email', authValue: 'Ada@Example.com' }, 'ada@example.com'],
    [
      'of a social login is the email given',
      { authMethod: 'google', authValue: 'id', email: 'Ada@Example.com' },
      'ada@example.com',
    ],
    [
      'of a social login with an email for its value is that',
      { authMethod: 'google', authValue: 'Ada@Example.com' },
      'ada@example.com',
    ],
    [
      'given beside such a value wins',
      { authMethod: 'google', authValue: 'a@example.com', email: 'b@example.com' },
      'b@example.com',
    ],
    ['of a social login without any is none', { authMethod: 'google', authValue: 'id' }, null],
    ['given as null is none', { authMethod: 'google', authValue: 'id', email: null }, null],
    [
      'of an email login may be repeated',
      { authMethod: 'email', authValue: 'a@b.example', email: 'A@B.example' },
      'a@b.example',
    ],
  ])('%s', (_name, input, loginEmail) => {
    expect(profile(input).identityEmail).toBe(loginEmail);
  });
});

describe('the wallet of a profile', () => {
  test('of a wallet login is its value, and is also an external account', () => {
    const address = checksumAddress(ethereumAddress(1));
    expect(profile({ authMethod: 'wallet', authValue: address })).toEqual({
      authMethod: 'wallet',
      emailVerified: null,
      metadata: null,
      authValue: address,
      authValueKey: ethereumAddress(1),
      identityEmail: null,
      saidEmail: null,
      wallet: address,
      ...ofKeptTexts(() => null),
      accounts: [{ network: 'ethereum', publicKey: address, addressKey: ethereumAddress(1), walletType: 'external' }],
    });
  });

  test('of a wallet login may have another case than its value, but not another address', () => {
    const input = { authMethod: 'wallet', authValue: ethereumAddress(1) };
    const shown = checksumAddress(ethereumAddress(1));
    expect(profile({ ...input, wallet: shown }).wallet).toBe(shown);
    expect(refusal(() => profile({ ...input, wallet: ethereumAddress(2) }))).toMatch(
      /^wallet: got .* the address in auth_value/,
    );
  });

  test('that is also listed in the accounts becomes one external account', () => {
    const { accounts } = profile({ ...passkey, wallet: stellarAddress(1), accounts: [stellar(1), stellar(2)] });
    expect(accounts.map(({ addressKey, walletType }) => [addressKey, walletType])).toEqual([
      [stellarAddress(1), 'external'],
      [stellarAddress(2), 'custodial'],
    ]);
  });
});

describe('the accounts of a profile', () => {
  test('keep their order and spelling', () => {
    const shown = checksumAddress(ethereumAddress(1));
    const { accounts } = profile({ ...passkey, accounts: [stellar(1), { network: 'ethereum', publicKey: shown }] });
    expect(accounts).toEqual([
      { network: 'stellar', publicKey: stellarAddress(1), addressKey: stellarAddress(1), walletType: 'custodial' },
      { network: 'ethereum', publicKey: shown, addressKey: ethereumAddress(1), walletType: 'custodial' },
    ]);
  });

  test('that are malformed are named by index, with the field name of the interface', () => {
    const input = { ...passkey, accounts: [stellar(1), { network: 'stellar' as const, publicKey: 'nonsense' }] };
    expect(refusal(() => parseProfile(input, snakeCase))).toMatch(/^accounts\[1\]\.public_key: got "nonsense"/);
    expect(refusal(() => parseProfile(input, camelCase))).toMatch(/^accounts\[1\]\.publicKey: got "nonsense"/);
  });
});
