import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs once, before the first test: makes the build, and a migrated database of each engine to copy. */
export default async function setup({ vitest, provide }: TestProject): Promise<() => Promise<void>> {
  build();
  // Imported only now, because it imports the build.
  const { createTemplate, createTestRun, removeTestRun } = await import('./engines.js');
  const run = await createTestRun();
  const engines = new Set(vitest.projects.map((project) => project.getProvidedContext().engine));
  const templates = await Promise.all([...engines].map(async (engine) => [engine, await createTemplate(engine, run)]));
  provide('run', run);
  provide('templates', Object.fromEntries(templates));
  return () => removeTestRun(run, engines);
}

/**
 * Every run builds, so that no test runs an old build. An unchanged build takes three seconds. BUILT=yes says that it was just made, for
 * runs beside each other (.ci/run).
 */
function build(): void {
  if (process.env['BUILT'] === 'yes') return;
  removeLeftovers();
  execFileSync('npm', ['run', '-s', 'build'], { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] });
}

/** What the build makes of its own output. */
const MADE = ['cli/commands.js', 'dashboard/execute-bundle', 'dashboard/pages/'];

/** The compiler keeps the output of a deleted source, and a test that imports it would still pass. */
function removeLeftovers(): void {
  const dist = join(ROOT, 'dist');
  if (!existsSync(dist)) return;
  for (const path of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    // The pages are built by Vite, which empties their folder itself; hidden folders are built for tests.
    if (
      !path.endsWith('.js') ||
      path.startsWith('.') ||
      MADE.some((made) => path.startsWith(made)) ||
      existsSync(join(ROOT, 'src', path.replace(/js$/, 'ts')))
    )
      continue;
    rmSync(join(dist, path));
  }
}
