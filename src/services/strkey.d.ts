// The package types only its index; this names the one module of it that addresses.ts loads.
declare module '@stellar/stellar-base/lib/strkey.js' {
  export { StrKey } from '@stellar/stellar-base';
}
