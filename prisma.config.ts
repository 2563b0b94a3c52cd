import { defineConfig } from 'prisma/config';

// `prisma generate` insists on locating a schema engine that it never runs; any existing file will do,
// and naming one keeps it from downloading (../shared/pitfalls.md, section 0).
process.env['PRISMA_SCHEMA_ENGINE_BINARY'] ??= process.execPath;
process.env['CHECKPOINT_DISABLE'] ??= '1';

export default defineConfig({ schema: 'prisma/schema.prisma', migrations: { path: 'prisma/migrations' } });
