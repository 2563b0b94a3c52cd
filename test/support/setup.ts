import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Once a run, before its first test: the build that all tests run, and a migrated database of each engine, of which they take copies. */
export default async function setup({ vitest, provide }: TestProject): Promise<() => Promise<void>> {
  build();
  // Only now: it runs the build itself.
  const { createTemplate, createTestRun, removeTestRun } = await import('./engines.js');
  const run = await createTestRun();
  const engines = new Set(vitest.projects.map((project) => project.getProvidedContext().engine));
  const templates = await Promise.all([...engines].map(async (engine) => [engine, await createTemplate(engine, run)]));
  provide('run', run);
  provide('templates', Object.fromEntries(templates));
  return () => removeTestRun(run, engines);
}

/** A test of yesterday's build would prove nothing, so every run builds. What is built already takes three seconds. */
function build(): void {
  removeLeftovers();
  execFileSync('npm', ['run', '-s', 'build'], { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] });
}

/** The compiler leaves what it made of a source that has gone, and a test that imports it would still pass. */
function removeLeftovers(): void {
  const dist = join(ROOT, 'dist');
  if (!existsSync(dist)) return;
  for (const path of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    if (!path.endsWith('.js') || existsSync(join(ROOT, 'src', path.replace(/js$/, 'ts')))) continue;
    rmSync(join(dist, path));
  }
}
