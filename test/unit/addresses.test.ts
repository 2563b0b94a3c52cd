import { base32 } from '@scure/base';
import { StrKey } from '@stellar/stellar-base';
import crc16 from 'crc/calculators/crc16xmodem';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Address, checksumAddress, isChecksumValid, parseAddress, requireAddress } from '#dist/domain/wallets.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';

const key32 = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes));
const key20 = fc.uint8Array({ minLength: 20, maxLength: 20 }).map((bytes) => Buffer.from(bytes).toString('hex'));

/** The reason why a text is malformed; throws if it is an address. */
function reasonFor(text: string): string {
  const parsed = parseAddress(text);
  if (!('reason' in parsed)) throw new Error(`${text} was taken for an address of ${parsed.network}.`);
  return parsed.reason;
}

test('the parser never throws: every text is an address or has a reason', () => {
  const almost = fc
    .tuple(fc.constantFrom('G', '0x', 'M', '0X'), fc.string({ unit: 'binary' }))
    .map((all) => all.join(''));
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }), almost), (text) => {
      const parsed = parseAddress(text);
      if ('reason' in parsed) expect(parsed.reason).toMatch(/\w/);
      else expect(parsed.publicKey).toBe(text);
    }),
  );
});

describe('a Stellar address', () => {
  test('is any ed25519 key in StrKey form, and is compared exactly', () => {
    fc.assert(
      fc.property(key32, (key) => {
        const text = StrKey.encodeEd25519PublicKey(key);
        expect(parseAddress(text)).toEqual({ network: 'stellar', publicKey: text, key: text });
      }),
    );
  });

  test('has no other StrKey version, even with a valid checksum', () => {
    // The other versions that also begin with `G`.
    for (let version = (6 << 3) + 1; version < 7 << 3; version += 1) {
      const versioned = Uint8Array.of(version, ...Buffer.alloc(32, 7));
      const text = base32.encode(Uint8Array.of(...versioned, crc16(versioned) & 0xff, crc16(versioned) >> 8));
      expect([text[0], text.length, StrKey.isValidEd25519PublicKey(text)]).toEqual(['G', 56, false]);
      expect(parseAddress(text)).toHaveProperty('reason');
    }
  });

  test('is refused after one character is changed, for any key and any character', () => {
    const change = fc.record({
      key: key32,
      place: fc.nat(55),
      to: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    });
    fc.assert(
      fc.property(change, ({ key, place, to }) => {
        const address = StrKey.encodeEd25519PublicKey(key);
        fc.pre(address.charAt(place) !== to);
        expect(parseAddress(address.slice(0, place) + to + address.slice(place + 1))).toHaveProperty('reason');
      }),
    );
  });

  test('is refused after two adjacent characters are swapped', () => {
    const address = stellarAddress(2);
    for (let place = 0; place < address.length - 1; place += 1) {
      const [a = '', b = ''] = address.slice(place, place + 2);
      if (a !== b) reasonFor(address.slice(0, place) + b + a + address.slice(place + 2));
    }
  });

  // https://stellar.org/protocol/sep-23, "Valid test cases" and "Invalid test cases".
  test('accepts the valid account of SEP-23', () => {
    const text = 'GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ';
    expect(parseAddress(text)).toMatchObject({ network: 'stellar', key: text });
  });

  test.each([
    ['five bytes instead of 32', 'GAAAAAAAACGC6'],
    ['a length congruent to 1 mod 8', 'GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZA'],
    ['36 bytes instead of 35', 'GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJUACUSI'],
    ['an algorithm that does not exist', 'G47QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVP2I'],
    ['a muxed account with a trailing bit', 'MA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJUAAAAAAAAAAAACJUR'],
    ['a muxed account with padding', 'MA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJUAAAAAAAAAAAACJUK==='],
  ])('refuses an invalid example of SEP-23: %s', (_name, text) => {
    expect(parseAddress(text)).toHaveProperty('reason');
  });
});

describe('an Ethereum address', () => {
  // https://eips.ethereum.org/EIPS/eip-55, "Test Cases".
  const EIP_55 = `0x52908400098527886E0F7030069857D2E4169EE7 0x8617E340B3D01FA5F11F306F4090FD50E238070D
    0xde709f2102306220921060314715629080e2fb77 0x27b1fdb04752bbc536007a920d24acb045561c26
    0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed 0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359
    0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB 0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb`.split(/\s+/);

  test.each(EIP_55)('%s, an example of EIP-55, has a valid checksum', (text) => {
    expect(checksumAddress(text.toLowerCase())).toBe(text);
    expect(parseAddress(text)).toEqual({
      network: 'ethereum',
      publicKey: text,
      key: text.toLowerCase(),
    });
    expect(isChecksumValid(parseAddress(text) as Address)).toBe(true);
  });

  test('is the same address in any case', () => {
    fc.assert(
      fc.property(fc.mixedCase(key20), (digits) => {
        expect(parseAddress(`0x${digits}`)).toMatchObject({
          network: 'ethereum',
          publicKey: `0x${digits}`,
          key: `0x${digits.toLowerCase()}`,
        });
      }),
    );
  });

  test('in all lower or all upper case has no checksum to verify', () => {
    fc.assert(
      fc.property(key20, (digits) => {
        expect(isChecksumValid(parseAddress(`0x${digits}`) as Address)).toBe(true);
        expect(isChecksumValid(parseAddress(`0x${digits.toUpperCase()}`) as Address)).toBe(true);
      }),
    );
  });

  /** Digits of one case but for one letter, often at an end. */
  const oneOfAnotherCase = fc
    .record({ digits: key20, place: fc.oneof(fc.constantFrom(0, 1, 39), fc.nat(39)), isUpper: fc.boolean() })
    .map(({ digits, place, isUpper }) => {
      const [letter, others] = isUpper ? ['A', digits.toLowerCase()] : ['a', digits.toUpperCase()];
      return `${others.slice(0, place)}${letter}${others.slice(place + 1)}`;
    });

  test('in mixed case has a valid checksum only in the case of EIP-55', () => {
    fc.assert(
      fc.property(fc.oneof(fc.mixedCase(key20), oneOfAnotherCase), (digits) => {
        const isMixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase();
        const isRight = `0x${digits}` === checksumAddress(`0x${digits.toLowerCase()}`);
        expect(isChecksumValid(parseAddress(`0x${digits}`) as Address)).toBe(!isMixed || isRight);
      }),
    );
  });

  test('with one letter in the wrong case is accepted, and its checksum is reported as wrong', () => {
    const address = parseAddress('0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed');
    expect(address).toEqual({
      network: 'ethereum',
      publicKey: '0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
      key: '0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed',
    });
    expect(isChecksumValid(address as Address)).toBe(false);
  });
});

describe('a malformed address is refused with a specific reason', () => {
  const muxed = 'MA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVAAAAAAAAAAAAAJLK';
  test.each([
    ['nothing', '', 'it is empty'],
    ['a muxed account', muxed, 'send the G… address inside it'],
    ['a secret seed', StrKey.encodeEd25519SecretSeed(Buffer.alloc(32)), 'must never be sent anywhere'],
    ['a Stellar address in lower case', stellarAddress(1).toLowerCase(), 'in upper case'],
    ['a Stellar address in mixed case', `G${stellarAddress(1).slice(1).toLowerCase()}`, 'in upper case'],
    [
      'a Stellar address with a typing error',
      `${stellarAddress(1).slice(0, -1)}${stellarAddress(1).endsWith('A') ? 'B' : 'A'}`,
      'checksum',
    ],
    ['a Stellar address that is too short', stellarAddress(1).slice(0, -1), 'this has 55'],
    ['a Stellar address that is too long', `${stellarAddress(1)}A`, 'this has 57'],
    [
      'a Stellar address with a digit outside its alphabet',
      stellarAddress(1).replace(/.$/, '1'),
      '"1" is none of them',
    ],
    ['an Ethereum address without a digit', ethereumAddress(1).slice(0, -1), 'this has 39'],
    ['an Ethereum address with a digit too many', `${ethereumAddress(1)}0`, 'this has 41'],
    ['an Ethereum address with a letter that is no hex digit', `${ethereumAddress(1).slice(0, -1)}g`, '"g" is none'],
    ['an Ethereum address after 0X', ethereumAddress(1).replace('0x', '0X'), '0x in lower case'],
    [
      'an Ethereum address without 0x',
      ethereumAddress(1).slice(2),
      'it begins neither with G (Stellar) nor with 0x (Ethereum)',
    ],
    ['white space before it', ` ${stellarAddress(1)}`, 'no blanks around it'],
    ['a secret seed and white space', `S${'A'.repeat(55)}\n`, 'secret seed'],
  ])('%s', (_name, text, reason) => {
    expect(reasonFor(text)).toContain(reason);
  });
});

test('the error does not repeat a secret seed that was sent by mistake', () => {
  const seed = `S${'A'.repeat(55)}`;
  expect(() => requireAddress('address', seed)).toThrow(/got "\[secret\]", .*secret seed/);
  expect(() => requireAddress('address', seed)).not.toThrow(/SAAA/);
});
