/**
 * What can be changed in a built file, one place at a time: a condition, an operator, a bound or a literal, in JavaScript and in the text
 * of SQL. Messages and names stay as they are.
 */
import { parseAst } from 'vite';

const OPERATORS = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '&&': '||',
  '||': '&&',
};

const SQL_WORDS = /\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|FROM|ORDER BY|ON CONFLICT|AND|LIMIT)\b/;

/** In SQL: what stands there, and what is put in its place. */
const SQL_CHANGES = [
  [/ < /g, ' <= '],
  [/ <= /g, ' < '],
  [/ > /g, ' >= '],
  [/ >= /g, ' > '],
  [/\bAND\b/g, 'OR'],
  [/\bOR\b/g, 'AND'],
  [/\bASC\b/g, 'DESC'],
  [/\bDESC\b/g, 'ASC'],
  [/\bIS NULL\b/g, 'IS NOT NULL'],
  [/\bIS NOT NULL\b/g, 'IS NULL'],
  [/\bNOT EXISTS\b/g, 'EXISTS'],
  [/(?<!\bNOT )\bEXISTS\b/g, 'NOT EXISTS'],
];

const isFunction = ({ type }) => /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(type);

/**
 * The places of a file and its functions. `enclosing` is the start of the innermost function around a place, or null for what runs when
 * the file is loaded.
 */
export function readFile(code) {
  const mutations = [];
  const functions = [];

  const add = (node, enclosing, replacement) =>
    mutations.push({ start: node.start, end: node.end, enclosing, replacement });

  function changeSql(text, start, enclosing) {
    for (const [pattern, replacement] of SQL_CHANGES) {
      for (const { index, 0: found } of text.matchAll(pattern)) {
        add({ start: start + index, end: start + index + found.length }, enclosing, replacement);
      }
    }
  }

  function change(node, parent, enclosing) {
    const { type } = node;
    if (type === 'BinaryExpression' || type === 'LogicalExpression') {
      const { left, right, operator } = node;
      if (operator === '??') add(node, enclosing, code.slice(left.start, left.end));
      else if (operator in OPERATORS && !isText(left, operator) && !isText(right, operator)) {
        const between = code.slice(left.end, right.start);
        const start = left.end + between.indexOf(operator);
        add({ start, end: start + operator.length }, enclosing, OPERATORS[operator]);
      }
    } else if (type === 'IfStatement' || type === 'ConditionalExpression') {
      add(node.test, enclosing, 'true');
      add(node.test, enclosing, 'false');
    } else if (type === 'WhileStatement') {
      add(node.test, enclosing, 'false');
    } else if (type === 'UnaryExpression' && node.operator === '!') {
      add(node, enclosing, code.slice(node.argument.start, node.argument.end));
    } else if (type === 'Literal' && parent.type !== 'ImportDeclaration') {
      if (typeof node.value === 'boolean') add(node, enclosing, String(!node.value));
      else if (typeof node.value === 'number') add(node, enclosing, String(node.value + 1));
      else if (typeof node.value === 'bigint') add(node, enclosing, `${node.value + 1n}n`);
      else if (typeof node.value === 'string' && SQL_WORDS.test(node.value)) {
        changeSql(code.slice(node.start, node.end), node.start, enclosing);
      }
    } else if (type === 'TemplateElement' && isSql(parent, code)) {
      changeSql(code.slice(node.start, node.end), node.start, enclosing);
    }
  }

  function walk(node, parent, enclosing) {
    change(node, parent, enclosing);
    let inside = enclosing;
    if (isFunction(node)) {
      functions.push(node);
      inside = node.start;
    }
    for (const value of Object.values(node)) {
      for (const child of Array.isArray(value) ? value : [value]) {
        if (typeof child?.type === 'string') walk(child, node, inside);
      }
    }
  }
  walk(parseAst(code), {}, null);
  return { mutations, functions };
}

const isText = (node, operator) =>
  operator === '+' && (node.type === 'TemplateLiteral' || (node.type === 'Literal' && typeof node.value === 'string'));

const isSql = (template, code) =>
  template.type === 'TemplateLiteral' &&
  (/\bsql\s*$/.test(code.slice(0, template.start)) || SQL_WORDS.test(code.slice(template.start, template.end)));

export const apply = (code, { start, end, replacement }) => code.slice(0, start) + replacement + code.slice(end);

/** The file with a call at the start of each function, by which a run of tests tells which functions its files enter. */
export function instrument(code, name, functions) {
  const insertions = functions.flatMap(({ start, body }) => {
    const call = `globalThis.__entered?.(${JSON.stringify(`${name}#${start}`)})`;
    return body.type === 'BlockStatement'
      ? [{ at: body.start + 1, text: `${call};` }]
      : [
          { at: body.start, text: `(${call}, ` },
          { at: body.end, text: ')' },
        ];
  });
  let text = code;
  for (const { at, text: inserted } of insertions.sort((a, b) => b.at - a.at)) {
    text = text.slice(0, at) + inserted + text.slice(at);
  }
  return text;
}
