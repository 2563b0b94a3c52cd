import { defineConfig } from 'vite';

/** Static files with hashed names. Nothing is inlined, because the Content-Security-Policy allows no inline code. */
export default defineConfig({
  root: import.meta.dirname,
  base: '/dashboard/',
  build: {
    outDir: '../../../dist/dashboard/pages',
    emptyOutDir: true,
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
});
