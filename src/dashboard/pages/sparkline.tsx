import { plural } from './format.js';

/** Sign-ups of the last days as small bars. Its numbers are in its name, for screen readers. */
export function Sparkline({ totals }: { totals: readonly number[] }) {
  const most = Math.max(1, ...totals);
  const sum = totals.reduce((total, value) => total + value, 0);
  const label = `${plural(sum, 'sign-up')} in the last ${totals.length} days`;
  return (
    <svg
      class="sparkline"
      role="img"
      aria-label={label}
      viewBox={`0 0 ${totals.length * 4} 24`}
      preserveAspectRatio="none"
    >
      <title>{label}</title>
      {totals.map((value, index) => {
        const height = value === 0 ? 1 : 2 + (22 * value) / most;
        return (
          <rect key={index} class={value === 0 ? 'zero' : ''} x={index * 4} y={24 - height} width="3" height={height} />
        );
      })}
    </svg>
  );
}
