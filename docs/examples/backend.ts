// A backend: records a login, verifies the user's wallet, and tells why a login was refused. `npm i` the package of userdir.
import { createClient, UserdirError } from 'userdir/client';

const { USERDIR_URL = 'http://127.0.0.1:4000', APP_ID = '', APP_SECRET = '' } = process.env;
const client = createClient({ url: USERDIR_URL, appId: APP_ID, appSecret: APP_SECRET });

// To be sent once you know who logs in: after the password, the passkey or the answer of the provider is checked.
const address = '0x52908400098527886E0F7030069857D2E4169EE7';
const accounts = [{ network: 'ETHEREUM' as const, publicKey: address }];
const { created, user } = await client.logins.record({ authMethod: 'email', authValue: 'ada@example.com', accounts });
console.log(`user ${user.id}: ${created ? 'registered' : `login ${user.loginCount}`}`);

const { exists } = await client.wallets.verify(address, { userId: user.id });
console.log(`owns the wallet: ${exists}`);

try {
  await client.logins.record({ authMethod: 'email', authValue: 'no address' });
} catch (error) {
  if (!(error instanceof UserdirError)) throw error;
  console.log(`refused: ${error.code} of ${error.argument}`);
}
