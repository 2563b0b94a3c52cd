import { signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';
const THEMES: readonly Theme[] = ['system', 'light', 'dark'];
const KEY = 'userdir-theme';

const stored = localStorage.getItem(KEY) as Theme | null;
const prefersDark = matchMedia('(prefers-color-scheme: dark)');

export const theme = signal<Theme>(stored && THEMES.includes(stored) ? stored : 'system');
/** True while the page is dark, for parts that CSS does not reach. */
export const isDark = signal(false);

export function applyTheme(next: Theme): void {
  theme.value = next;
  isDark.value = next === 'dark' || (next === 'system' && prefersDark.matches);
  document.documentElement.dataset['theme'] = isDark.value ? 'dark' : 'light';
  localStorage.setItem(KEY, next);
}

export const nextTheme = (): Theme => THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? 'system';

prefersDark.addEventListener('change', () => applyTheme(theme.value));
applyTheme(theme.value);
