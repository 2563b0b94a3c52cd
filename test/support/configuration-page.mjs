import { fileURLToPath } from 'node:url';
import { settingsOf } from '#dist/config/settings.js';

/** docs/configuration.md, made from the declarations of the settings: `npm run docs:configuration` writes it. */
export function configurationPage() {
  const rows = settingsOf.map(([name, setting]) => row(name, setting)).join('\n');
  const files = settingsOf.filter(([, { secret }]) => secret).map(([name]) => `\`${name}_FILE\``);
  return `<!-- Made by \`npm run docs:configuration\` from the declarations in src/config/settings.ts; edit them, not this page. -->

# Configuration

Settings are environment variables. All have a default that works on one machine.

- A malformed value stops the start. One line for each fault names the variable and what it accepts.
- An empty variable counts as absent.
- A variable whose name is one or two letters away from a setting, such as \`DATABASE_URI\`, is named in a warning at the start.
- A setting that may hold a secret can be given as a file: ${files.join(', ')}. The variable holds the path of a file of at most
  16 KiB, which is read once, at the start.

| setting | default | accepted values | what it does |
|---|---|---|---|
${rows}

The settings do not contain the limits of requests, which are fixed: [limits.md](limits.md).

Other variables of OpenTelemetry are read too (\`OTEL_TRACES_SAMPLER\`, \`OTEL_RESOURCE_ATTRIBUTES\`, \`OTEL_BSP_…\`), except for the time that
sending may take, which is one second.
`;
}

function row(name, setting) {
  const shown = setting.default === null ? (setting.absent ?? 'none') : `\`${setting.default}\``;
  return `| \`${name}\` | ${shown} | ${setting.accepts.replaceAll(/"(\w+)"/g, '`$1`').replaceAll(/(\w+:\/\/)/g, '`$1`')} | ${setting.does} |`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(configurationPage());
