import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type NewSecret, SECRET_SCOPES, type SecretScope } from '#dist/domain/projects.js';
import { AppError } from '#dist/errors.js';
import { useTestApp } from '../support/app.js';

/** Random acts on the secrets of a project against a model. Instants are in hours from now, of which none passes meanwhile. */

const app = useTestApp();

type Act =
  | {
      readonly act: 'add';
      readonly label: string;
      readonly scopes: readonly SecretScope[];
      readonly hours: number | null;
    }
  | { readonly act: 'rotate'; readonly label: string; readonly hours: number }
  /** The secret at a place of all that there were; one more place is that of none. */
  | { readonly act: 'revoke'; readonly place: number };

const label = fc.constantFrom('main', 'a', 'b');
const acts: fc.Arbitrary<Act> = fc.oneof(
  fc.record({
    act: fc.constant('add' as const),
    label,
    scopes: fc.subarray([...SECRET_SCOPES], { minLength: 1 }),
    hours: fc.constantFrom(null, 10, 20),
  }),
  fc.record({ act: fc.constant('rotate' as const), label, hours: fc.constantFrom(0, 5, 15) }),
  fc.record({ act: fc.constant('revoke' as const), place: fc.nat(8) }),
);

/** A secret of the model; `hours` are 0 where it has ended. */
interface Known {
  readonly label: string;
  readonly scopes: readonly string[];
  hours: number | null;
}

const isLive = ({ hours }: Known) => hours !== 0;
const earlier = (one: number | null, other: number) => (one === null ? other : Math.min(one, other));

/** What an act makes of the secrets, or the code of its refusal. */
function apply(secrets: Known[], act: Act): string {
  if (act.act === 'revoke') {
    const secret = secrets[act.place];
    if (secret === undefined) return 'NOT_FOUND';
    secret.hours = 0;
    return 'done';
  }
  const ofLabel = secrets.filter((secret) => secret.label === act.label);
  if (act.act === 'add') {
    if (ofLabel.some(isLive)) return 'CONFLICT';
    secrets.push({ label: act.label, scopes: act.scopes, hours: act.hours });
    return 'done';
  }
  const newest = ofLabel.at(-1);
  if (newest === undefined) return 'NOT_FOUND';
  secrets.push({ ...newest, hours: isLive(newest) ? newest.hours : null });
  for (const secret of act.hours === 0 ? ofLabel : [newest])
    if (isLive(secret)) secret.hours = earlier(secret.hours, act.hours);
  return 'done';
}

const HOUR_MS = 3_600_000;
const hoursUntil = (instant: string | null) =>
  instant === null ? null : Math.max(0, Math.round((Date.parse(instant) - Date.now()) / HOUR_MS));

test('acts on secrets do what they say, whatever came before; exactly the live ones are accepted', async () => {
  const { projects, secrets } = app.context.services;
  await fc.assert(
    fc.asyncProperty(fc.array(acts, { maxLength: 12 }), async (history) => {
      const { appId, appSecret } = await app.createProject();
      const scope = await projects.getScope(appId);
      const first = await secrets.listSecrets(scope);
      const model: Known[] = first.map(({ label, scopes }) => ({ label, scopes, hours: null }));
      const texts = [appSecret];
      const ids = first.map(({ id }) => id);

      const add = ({ label, scopes, hours }: Act & { act: 'add' }): Promise<NewSecret> =>
        secrets.addSecret(scope, { label, scopes, expiresInMs: hours === null ? null : hours * HOUR_MS });
      const rotate = async ({ label, hours }: Act & { act: 'rotate' }): Promise<NewSecret> => {
        const rotation = await secrets.rotateSecret(scope, { label, overlapMs: hours * HOUR_MS });
        const others = model.filter((one) => isLive(one) && one.label !== label).map((one) => one.label);
        expect(rotation.otherLabels).toEqual([...new Set(others)].sort());
        expect(hoursUntil(rotation.previousExpiresAt)).toBe(hours);
        return rotation;
      };
      const run = async (act: Act): Promise<string> => {
        if (act.act === 'revoke') {
          const revoked = await secrets.revokeSecret(scope, ids[act.place] ?? 2_000_000_000);
          expect(revoked).toBe(model[act.place]?.label);
          return 'done';
        }
        const made = await (act.act === 'add' ? add(act) : rotate(act));
        texts.push(made.appSecret);
        ids.push(made.id);
        return 'done';
      };

      for (const act of history) {
        const done = await run(act).catch((error) => {
          if (error instanceof AppError) return error.code;
          throw error;
        });
        expect(done).toBe(apply(model, act));
      }

      const listed = await secrets.listSecrets(scope);
      expect(listed.map(({ id }) => id)).toEqual(ids);
      expect(listed.map(({ label, scopes, isLive }) => ({ label, scopes, isLive }))).toEqual(
        model.map((one) => ({ label: one.label, scopes: one.scopes, isLive: isLive(one) })),
      );
      expect(listed.map(({ expiresAt }) => hoursUntil(expiresAt))).toEqual(model.map(({ hours }) => hours));
      for (const secret of listed) expect(await secrets.getSecret(scope, secret.id)).toEqual(secret);
      await expect(secrets.getSecret(scope, 2_000_000_000)).rejects.toMatchObject({ code: 'NOT_FOUND' });
      const accepted = await Promise.all(
        texts.map((text) =>
          projects.authenticate({ appId, appSecret: text }).then(
            () => true,
            () => false,
          ),
        ),
      );
      expect(accepted).toEqual(model.map(isLive));
    }),
    { numRuns: 25 },
  );
});
