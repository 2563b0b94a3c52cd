import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { ROOT } from '../support/checkout.js';

const PAGES = join(ROOT, 'dist/dashboard/pages');
const assets = readdirSync(join(PAGES, 'assets'));
const read = (name: string) => readFileSync(join(PAGES, 'assets', name));

test('all scripts of the dashboard together are at most 85 KB, compressed', () => {
  const scripts = assets.filter((name) => name.endsWith('.js'));
  expect(scripts.length).toBeGreaterThan(1);
  const bytes = scripts.reduce((sum, name) => sum + gzipSync(read(name)).length, 0);
  expect(bytes).toBeLessThanOrEqual(85_000);
  expect(bytes).toBeGreaterThan(10_000);
});

test('every asset has a hash of its content in its name', () => {
  expect(assets.filter((name) => !/-[\w-]{8}\.(js|css|svg)$/.test(name))).toEqual([]);
});

test('the page has no inline script or style, and loads nothing from elsewhere', () => {
  const html = readFileSync(join(PAGES, 'index.html'), 'utf8');
  expect(html).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)/);
  const loaded = [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, target = '']) => target);
  expect(loaded.length).toBeGreaterThan(2);
  expect(loaded.filter((target) => !target.startsWith('/dashboard/assets/'))).toEqual([]);
  const styles = assets.filter((name) => name.endsWith('.css')).map((name) => read(name).toString());
  expect(styles.join('').match(/@import|url\((?!["']?(?:data:|\/dashboard\/assets\/))/g)).toBeNull();
});
