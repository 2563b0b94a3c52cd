import type { Login, System } from './person.js';
import type { Fields } from './values.js';

/*
 * What is declared of a system whose exports are imported: where the parts of a person stand in its records. Each system is a file with one
 * declaration, and declared-system.ts reads people by it. What cannot be declared is a function beside it.
 */

/**
 * Where a value stands in a record, or in the item of a list: in a field (`email`), in a field of an object in it (`meta.created`), in the
 * first of several that is there, or what works it out. A function gets the item and the record, which are the same without a list.
 */
export type Source = string | readonly string[] | ((item: Fields, record: Fields) => unknown);

/** The record itself, or each item of a list in it. */
export interface Items {
  /** The list. Without it, the record is the only item. */
  readonly each?: Source;
  /** Only items where this is true. */
  readonly if?: Source;
}

/** What is known of a login, an email or a phone. */
export interface Verification {
  /** Whether it is verified: true or false for all, or where the record says so. */
  readonly verified?: boolean | Source;
  /** What stands for `verified` where the record does not say: by default null, which means unknown. */
  readonly verifiedIfUnsaid?: boolean;
  /** Where the date of the verification stands, in place of `verified`: without a date it is not verified. */
  readonly verifiedAt?: Source;
}

/** What a login is: its method and its value. One without a value is none. */
export interface LoginKind extends Verification {
  /** The method of all: `email`, `phone`, `wallet`, `passkey`, `username`, or the name of a provider. */
  readonly method?: string;
  /** Where the name of the provider stands, in place of `method`. */
  readonly methodIn?: Source;
  /** Where the email, the number, the address or the ID that the provider has for the person stands. */
  readonly value?: Source;
  /** Where the email that the provider has for the person stands. */
  readonly email?: Source;
}

/** A login of each record, or of each item of a list in it. */
export interface LoginForm extends Items, LoginKind {
  /** Where the date stands since when the person has this login. */
  readonly createdAt?: Source;
  /** Where the date of the last login by it stands. */
  readonly lastLogin?: Source;
  /** Where the kind of an item stands, by which it is found in `kinds`. By default it is where the method stands. */
  readonly kindIn?: Source;
  /** What a login of a kind is instead. Its dates are those of the form, and so is its method if it says none. */
  readonly kinds?: Readonly<Record<string, LoginKind>>;
}

/** What of a record is not kept: once for each item. */
export interface NotKept extends Items {
  /** A plural noun, such as `passwords`. */
  readonly what: string | ((item: Fields, record: Fields) => string);
}

/** When a person is blocked. */
export type Blocked =
  /** Where this is true. */
  | { readonly if: Source }
  /** Where this is false. */
  | { readonly unless: Source }
  /** Until this date. */
  | { readonly until: Source };

/** A system, by where the parts of a person stand in its records. What is not said here is not known of the person. */
export interface Declaration extends Pick<System, 'idFields' | 'needs' | 'lists' | 'columns' | 'joined'> {
  /** Further fields that only functions read, or that say nothing of a person. Any other is reported as not kept; `custom:*` is each that begins so. */
  readonly otherFields?: readonly string[];
  /** Makes one form of a record that the system writes in several, of which all that follows is read. */
  readonly reshape?: (record: Fields) => Fields;
  /** Why a record is no person, as a plural noun such as `service accounts`; null for a person. */
  readonly refuse?: (record: Fields) => string | null;
  /** The ID of a person, where it is not just the first of `idFields`. */
  readonly id?: (record: Fields) => string;
  /** The ways to log in, in their order: the first one is the primary identity. A function makes those that cannot be declared. */
  readonly logins: readonly (LoginForm | ((record: Fields) => readonly Login[]))[];
  /** The email of the person, which is kept also where it is none of the logins. */
  readonly email?: Verification & { readonly address: Source };
  /** Addresses that the system holds for the person, who does not log in by them. */
  readonly accounts?: readonly (Items & { readonly address: Source })[];
  /** Where the date stands on which the person was created. */
  readonly createdAt?: Source;
  /** Where the date of the last login stands. */
  readonly lastLogin?: Source;
  /** Where it stands how often the person has logged in. */
  readonly loginCount?: Source;
  /** When the person is banned here. */
  readonly blocked?: Blocked;
  /** Where it stands that the person is a guest, who has not said who they are. */
  readonly isGuest?: Source;
  /** Where an object stands, each of whose fields becomes metadata. */
  readonly metadataIn?: Source;
  /** Objects, also as JSON text, that become metadata by these names. */
  readonly metadataObjects?: Readonly<Record<string, Source>>;
  /** Further metadata, by its names. */
  readonly metadata?: Readonly<Record<string, Source>>;
  /** What is not kept and counted, in the order of the report. */
  readonly notKept?: readonly NotKept[];
}
