import { execFile, execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { createProgram, leafCommands } from '#dist/cli/program.js';
import { userdir, userdirJson } from '../support/command.js';

const run = promisify(execFile);

/** Each shell loads the script that the command prints, then completes a line as if Tab were pressed. */
const SHELLS = {
  bash: (script: string, words: string[]) => [
    '-c',
    `source "$1"; COMP_WORDS=("\${@:2}"); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _userdir; printf '%s\\n' "\${COMPREPLY[@]}"`,
    'bash',
    script,
    ...words,
  ],
  // The completion functions of zsh need a line editor, so these stubs print their arguments instead.
  zsh: (script: string, words: string[]) => [
    '-fc',
    `compdef() { }
     matching() { local each; for each in "$@"; do [[ $each == $PREFIX* ]] && print -r -- $each; done; }
     _describe() { matching "\${(P@)@[-1]%%:*}" }
     compadd() { shift; matching "$@" }
     _files() { matching *(N) }
     source "$1"; words=("\${@:2}"); CURRENT=$#words; PREFIX=$words[-1]; _userdir; true`,
    'zsh',
    script,
    ...words,
  ],
  fish: (script: string, words: string[]) => [
    '--no-config',
    '-c',
    `source ${script}; complete -C '${words.join(' ')}'`,
  ],
};

function isInstalled(shell: string): boolean {
  try {
    execFileSync(shell, ['-c', 'true']);
    return true;
  } catch {
    return false;
  }
}

// These tests open no database, so one engine is enough.
describe.runIf(inject('engine') === 'embedded')('userdir completion', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'userdir-completion-'));
    await writeFile(join(folder, 'users with a space.ndjson'), '');
  });
  afterAll(() => rm(folder, { recursive: true }));

  describe.each(Object.keys(SHELLS) as (keyof typeof SHELLS)[])('%s', (shell) => {
    let script: string;
    beforeAll(async () => {
      script = join(folder, `completion.${shell}`);
      const { code, stdout, stderr } = await userdir({}, ['completion', shell]);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      await writeFile(script, stdout);
    });

    test.runIf(isInstalled(shell)).each<[line: string, expected: string[]]>([
      ['userdir pro', ['project']],
      ['userdir project r', ['rename', 'revoke', 'rotate']],
      ['userdir project rotate --o', ['--overlap']],
      ['userdir user import --on-conflict ', ['fail', 'skip', 'update']],
      ['userdir user import --on-conflict u', ['update']],
      ['userdir user import --project app_1 --sk', ['--skip-invalid']],
      ['userdir user import --skip-invalid users', ['users with a space.ndjson']],
      ['userdir user ban --value remove --m', ['--method']],
      ['userdir user ban --method ', []],
      ['userdir totals ch', ['check']],
      ['userdir completion ', ['bash', 'fish', 'zsh']],
      ['userdir nonsense --j', []],
    ])('%j', async (line, expected) => {
      const { stdout, stderr } = await run(shell, SHELLS[shell](script, line.split(' ')), { cwd: folder });
      expect(stderr).toBe('');
      const offered = stdout.split('\n').map((each) => each.split('\t')[0]?.replace(/^\.\//, ''));
      expect(offered.filter((each) => each !== '').sort()).toEqual(expected);
    });

    test.runIf(isInstalled(shell))('offers every command and every option that the help shows', async () => {
      const program = createProgram({});
      for (const command of leafCommands(program)) {
        const path = [];
        for (let each = command; each.parent !== null; each = each.parent) path.unshift(each.name());
        const { stdout } = await run(shell, SHELLS[shell](script, ['userdir', ...path, '--']), { cwd: folder });
        const options = command.createHelp().visibleOptions(command);
        for (const option of options) expect(stdout.split(/[\n\t]/)).toContain(option.long);
      }
    });
  });

  test('an unknown shell is a usage error that lists the supported shells', async () => {
    expect(await userdir({}, ['completion', 'tcsh'])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('Allowed choices are bash, zsh, fish.'),
    });
  });

  test('--json contains the script', async () => {
    const { stdout } = await userdir({}, ['completion', 'bash']);
    expect(await userdirJson({}, ['completion', 'bash'])).toEqual({ shell: 'bash', script: stdout });
  });
});
