import type { ExportTarget } from '../../domain/systems.js';
import type { Drop, Holds, Leaver } from './leaver.js';

/* The records of a user in the systems to which users leave. The adapters of these systems read them back. */

/** A system to which users leave, and the file that it reads: records between two texts. */
interface Target extends Omit<Holds, 'name'> {
  readonly head: string;
  readonly tail: (people: number) => string;
  /** The record of a person, or why there can be none, as a plural noun. */
  readonly toRecord: (person: Leaver, drop: Drop) => object | string;
}

const FIREBASE_PROVIDERS =
  /^(google|facebook|twitter|github|apple|microsoft|gc\.apple|playgames\.google|linkedin|yahoo)\.com$/;
const orNothing = (fields: object) => (Object.keys(fields).length === 0 ? undefined : fields);
const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const TARGETS: Readonly<Record<ExportTarget, Target>> = {
  /** The file of a bulk import into a database connection, which adds `auth0|` to the IDs. */
  auth0: {
    head: '[\n',
    tail: () => '\n]\n',
    fields: ['username', 'unverified_email', 'unverified_phone'],
    providerOf: () => null,
    toRecord({ id, email, phone, username, isBlocked, metadata }) {
      if (email === null && phone === null && username === null)
        return 'people without email, phone number and username';
      const { user_metadata, ...others } = metadata;
      const own = isObject(user_metadata) ? user_metadata : undefined;
      return {
        user_id: id.replace(/^auth0\|/, ''),
        ...(email && { email: email.address, email_verified: email.verified === true }),
        ...(phone && { phone_number: phone.number, phone_verified: phone.verified }),
        ...(username !== null && { username }),
        ...(isBlocked && { blocked: true }),
        app_metadata: orNothing(own === undefined ? metadata : others),
        user_metadata: own,
      };
    },
  },
  /** The file of `firebase auth:import`. */
  firebase: {
    head: '{"users":[\n',
    tail: () => '\n]}\n',
    fields: ['created_at', 'last_login', 'unverified_email'],
    providerOf: (method) => [method, `${method}.com`].find((name) => FIREBASE_PROVIDERS.test(name)) ?? null,
    toRecord({ id, ownId, email, phone, providers, isBlocked, created_at, last_login, metadata }, drop) {
      const { guest: _, ...others } = metadata;
      // Firebase takes a person without any of these for a guest anyway.
      const isGuest = email === null && phone === null && providers.length === 0;
      // Custom claims would show it to browsers, and it may be private.
      drop('metadata', Object.keys(isGuest ? others : metadata).length > 0);
      drop('external IDs of more than 128 characters', id.length > 128);
      return {
        localId: id.length > 128 ? ownId : id,
        ...(email && { email: email.address, emailVerified: email.verified === true }),
        ...(phone && { phoneNumber: phone.number }),
        providerUserInfo: providers.map(([providerId, identity]) => ({
          providerId,
          rawId: identity.auth_value,
          ...(identity.email !== null && { email: identity.email }),
        })),
        createdAt: String(Date.parse(created_at)),
        ...(last_login !== null && { lastSignedInAt: String(Date.parse(last_login)) }),
        disabled: isBlocked,
      };
    },
  },
  /** The users of a partial import. It gives new IDs; the import of a realm keeps these. */
  keycloak: {
    head: '{"users":[\n',
    tail: () => '\n]}\n',
    fields: ['created_at', 'username', 'unverified_email', 'unverified_phone'],
    providerOf: (method) => (method === 'wallet' || method === 'passkey' ? null : method),
    toRecord({ id, email, phone, username, login, providers, isBlocked, created_at, metadata }, drop) {
      // An attribute is a list of texts.
      const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
      const values = Object.entries(metadata).map(([name, value]) => [name, [value].flat()] as const);
      drop(
        'types of metadata, as JSON',
        values.filter(([, list]) => list.some((value) => typeof value !== 'string')).length,
      );
      return {
        id,
        username: username ?? email?.address ?? login,
        ...(email && { email: email.address, emailVerified: email.verified === true }),
        enabled: !isBlocked,
        createdTimestamp: Date.parse(created_at),
        attributes: orNothing({
          ...Object.fromEntries(values.map(([name, list]) => [name, list.map(textOf)])),
          ...(phone && { phoneNumber: [phone.number], phoneNumberVerified: [String(phone.verified)] }),
        }),
        federatedIdentities: providers.map(([identityProvider, { auth_value: userId }]) => {
          return { identityProvider, userId, userName: userId };
        }),
      };
    },
  },
  /** The answer to a list of users (RFC 7644, 3.4.2): the one form of many users that the standard has and that names no operation. */
  scim: {
    head: '{"schemas":["urn:ietf:params:scim:api:messages:2.0:ListResponse"],"Resources":[\n',
    tail: (people) => `\n],"totalResults":${people},"startIndex":1,"itemsPerPage":${people}}\n`,
    fields: ['created_at', 'username'],
    providerOf: () => null,
    toRecord({ id, email, phone, username, login, isBlocked, created_at: created, metadata }, drop) {
      const { externalId, ...others } = metadata;
      drop('metadata', Object.keys(others).length > 0);
      // It does not say whether an email is verified: an unverified one would count as verified.
      drop('unverified emails', email?.verified === false);
      return {
        schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'],
        id,
        ...(externalId !== undefined && { externalId: String(externalId) }),
        userName: username ?? email?.address ?? login,
        active: !isBlocked,
        ...(email && email.verified !== false && { emails: [{ value: email.address, primary: true }] }),
        ...(phone && { phoneNumbers: [{ value: `tel:${phone.number}`, type: 'mobile' }] }),
        meta: { resourceType: 'User', created },
      };
    },
  },
};
