import fc from 'fast-check';
import { expect, test } from 'vitest';
import { describeJsonFault } from '#dist/domain/json-fault.js';

test.each([
  ['{"a": GABC}', 'line 1, column 7: expected a value'],
  ['{"a": "b", user_id: 1}', 'line 1, column 12: expected a key in double quotes'],
  ['{user_id: 1}', 'line 1, column 2: expected a key in double quotes or "}"'],
  ['{"wallets": [', 'line 1, column 14, where it ends: expected a value or "]"'],
  ['{"a": [{"b": 1}, 2', 'line 1, column 19, where it ends: expected "," or "]"'],
  ['{"a":1,}', 'line 1, column 8: expected a key in double quotes'],
  ['[1,]', 'line 1, column 4: expected a value'],
  ['{"a" 1}', 'line 1, column 6: expected ":"'],
  ['{"a": 1 "b": 2}', 'line 1, column 9: expected "," or "}"'],
  ['{\r\n  "a": 01\r\n}', 'line 2, column 9: expected "," or "}"'],
  ['{"a":"b\n"}', 'line 1, column 8: expected control characters in a text as escapes, such as \\n'],
  ['"a\\x"', 'line 1, column 3: expected an escape of JSON after "\\"'],
  ['"a\\"', 'line 1, column 5, where it ends: expected the quote that ends a text'],
  ['{} {}', 'line 1, column 4: expected the end'],
  ['', 'line 1, column 1, where it ends: expected a value'],
])('%j: %s', (text, fault) => {
  expect(describeJsonFault(text)).toBe(fault);
});

const isJson = (text: string) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

test('there is a fault where, and only where, JSON.parse refuses the text', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 4 }), fc.nat(), fc.constantFrom(...'{}[]",:\\x1-.eE \n\t', ''), (json, at, put) => {
      const place = at % (json.length + 1);
      for (const text of [
        json,
        json.slice(0, place) + put + json.slice(place),
        json.slice(0, place) + put + json.slice(place + 1),
      ])
        expect(describeJsonFault(text) === null, text).toBe(isJson(text));
    }),
    { numRuns: 2_000 },
  );
});

test('a fault is after all that some JSON begins with', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 3 }), fc.nat(), (json, at) => {
      const beginning = json.slice(0, at % (json.length + 1));
      const fault = describeJsonFault(beginning);
      // A beginning may be JSON itself, such as that of a number.
      if (fault !== null && !/^-?[\d.eE+-]*$|[\d.eE+\\-]$|[a-z]$|\\u[\da-f]*$/.test(beginning))
        expect(fault).toContain('where it ends');
    }),
  );
});

test('a text of a million characters that has no end takes no stack', () => {
  expect(describeJsonFault(`"${'x'.repeat(1_000_000)}`)).toContain('column 1000002, where it ends');
});
