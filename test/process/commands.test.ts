import { readdir } from 'node:fs/promises';
import type { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { createProgram, leafCommands } from '#dist/cli/program.js';
import { stellarAddress } from '../support/addresses.js';
import type { Json } from '../support/app.js';
import { call, useDatabase, userdir, userdirJson, useServer } from '../support/command.js';
import { createEmptyDatabase } from '../support/engines.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { PATIENCE } from '../support/waiting.js';

/**
 * A session with every command. `$` begins a command line, after `<` with its input; `~$` one that is repeated until it prints what
 * follows. `!` begins a line of stderr, and `?` an exit code other than 0. `…` stands for any text and TIME for a timestamp;
 * `<NAME>` is text for which NAME stands afterwards.
 */
const SESSION = `
$ migrate --json
{"applied":[]}
$ migrate
The database is up to date for userdir ….
$ project list
There is no project yet. Create one: npm run -s userdir -- project create --name NAME
$ project create --name " Müller & Co " --json
{"id":1,"name":"Müller & Co","app_id":"<APP_ID>","app_secret":"uds_…"}
$ project create --name Second
App ID      <SECOND>
App Secret  uds_…

The App Secret is shown only once. Store it where only your backend can read it.
$ project create --name " "
! userdir: A project's name is text of 1 to 200 characters on one line.
? 2
$ project show --project APP_ID --json
{"id":1,"name":"Müller & Co","app_id":"APP_ID","created_at":"TIME","disabled_at":null,"requests_per_minute":null,"total_user":0}
$ project show APP_ID
Name        Müller & Co
App ID      APP_ID
Created     TIME
State       enabled
Rate limit  what RATE_LIMIT says
Users       0
$ project rename --project APP_ID --name " Test " --json
{"id":1,"name":"Test","app_id":"APP_ID","created_at":"TIME","disabled_at":null,"requests_per_minute":null,"total_user":0,"changed":true}
$ project rename APP_ID --name Test
Nothing was to do. The project is called Test.
$ project limit --project APP_ID --rate 600 --json
{…"app_id":"APP_ID",…"requests_per_minute":600,"total_user":0,"changed":true}
$ project limit APP_ID --rate 600
Nothing was to do. The rate limit of Test is 600 requests a minute.
$ project limit APP_ID --rate default
The rate limit of Test is what RATE_LIMIT says.
$ project limit APP_ID --rate 0
! userdir: --rate: got 0, expected a whole number from 1 to 100000000.
? 2
$ project disable --project APP_ID --json
{…"app_id":"APP_ID",…"disabled_at":"TIME",…,"changed":true}
$ project disable APP_ID
Nothing was to do. The credentials of Test are refused. Its data is kept.
$ project list
ID  Name    App ID                        Created                   Users  State
 1  Test    APP_ID  TIME      0  disabled
 2  Second  SECOND  TIME      0
$ project list --json
[{"id":1,"name":"Test",…"disabled_at":"TIME",…},{"id":2,"name":"Second","app_id":"SECOND",…"total_user":0}]
$ project enable --project APP_ID --json
{…"app_id":"APP_ID",…"disabled_at":null,…,"changed":true}
$ project enable APP_ID
Nothing was to do. The credentials of Test are accepted.
$ project secrets --project APP_ID --json
[{"id":1,"label":"main","scopes":["read","verify","write","changes"],"created_at":"TIME","last_used_at":null,"expires_at":null,"live":true}]
$ project secrets APP_ID
ID  Label  Scopes                        Created                   Last used  Expires
 1  main   read, verify, write, changes  TIME  never      never
$ project add-secret --project APP_ID --label Reports --scope verify,read --expires-in 30d --json
{"app_id":"APP_ID","app_secret":"uds_…","id":<SECRET_ID>,"label":"Reports","scopes":["read","verify"],"expires_at":"TIME"}
$ project add-secret APP_ID --label Reports
! userdir: The project has a live secret labelled Reports: rotate it, or choose another label.
? 1
$ project add-secret APP_ID --label other
App ID      APP_ID
App Secret  uds_…
Scopes      read, verify, write, changes
Expires     never

The App Secret is shown only once. Store it where only your backend can read it.
$ project rotate --project APP_ID --label other --overlap 1h --json
{"app_id":"APP_ID","app_secret":"uds_…","previous_expires_at":"TIME","id":…,"label":"other","scopes":[…],"expires_at":null,"other_labels":["Reports","main"]}
$ project rotate APP_ID --label other
App ID      APP_ID
App Secret  uds_…

The old secret is no longer valid.
Still valid: the secret labelled Reports.
Still valid: the secret labelled main.
$ project rotate APP_ID --label nobody
! userdir: The project has no secret labelled "nobody".
? 1
$ project revoke --project APP_ID SECRET_ID --json
{"id":SECRET_ID,"label":"Reports"}
$ project revoke APP_ID SECRET_ID
The secret SECRET_ID (Reports) of APP_ID is no longer valid.
$ webhook list --project APP_ID --json
[]
$ webhook list APP_ID
The project has no webhook. Add one: npm run -s userdir -- webhook add --project … --url URL
$ webhook add --project APP_ID --url HOOK --types user.created --description "the CRM" --json
{"id":<WEBHOOK_ID>,"url":"HOOK","secret":"whsec_…"}
$ webhook add APP_ID --url FAILING_HOOK --types user.restored
ID      <SECOND_WEBHOOK>
URL     FAILING_HOOK
Secret  whsec_…

The secret is shown only once. The receiver needs it to verify what is sent.
$ webhook add APP_ID --url ftp://example.com
! userdir: --url: got "ftp://example.com", expected …
? 2
$ webhook test --project APP_ID WEBHOOK_ID --json
{"ok":true,"status":204,"ms":…,"error":null}
$ webhook test APP_ID WEBHOOK_ID
Accepted with 204 after … ms.
$ webhook test APP_ID SECOND_WEBHOOK
Failed after … ms: answered 500.
? 1
$ webhook attempts APP_ID WEBHOOK_ID
Nothing has been sent yet.
$ user import --project APP_ID --json < {"auth_method":"google","auth_value":"g-1","email":"Ada@example.com","external_id":"c-1","created_at":"2026-01-02","login_count":3,"accounts":[{"network":"stellar","public_key":"ADDRESS"}]}
{"imported":1,"created":1,"updated":0,"unchanged":0,"skipped":0,"failed":0,"errors":[],"error_kinds":[],"import_id":…}
$ user import APP_ID < {"auth_method":"passkey","auth_value":"cGFzc2tleQ","created_at":"2026-01-01","last_login":"2026-01-03"} ⏎ {"ban":{"auth_method":"apple","auth_value":"a-1"}}
Imported 1, skipped 0, failed 0. Added 1 ban.
$ user import APP_ID --from auth0 --dry-run < {"user_id":"auth0|1","email":"a@example.com","email_verified":true,"name":"A"}
{"auth_method":"email","auth_value":"a@example.com",…}
File            NDJSON in utf-8
People          1
Identities      email 1
Blocked         0
Without email   0
Kept otherwise  people without a date, created at the import 1
Not kept        name 1
Time zone       UTC
Nothing was imported: this was a dry run. 1 would be, 0 failed.
$ user import APP_ID --from auth1 < {}
! userdir: --from: got "auth1", expected one of …
? 2
$ user import APP_ID --undo 999999
! userdir: The project has no import 999999.
? 1
$ user import APP_ID --undo x
! userdir: --undo: got "x", expected decimal digits, 1 and up.
? 2
$ user import APP_ID --undo 999999 users.ndjson
! error: --undo takes no FILE
! (see userdir user import --help)
? 2
$ user import APP_ID < {}
line 1: auth_method: got nothing, expected text. auth_value: got nothing, expected text.
Imported 0, skipped 0, failed 1.
Nothing was imported, because 1 line failed.
? 1
~$ webhook attempts --project APP_ID WEBHOOK_ID --json
[{"at":"TIME","id":"<MESSAGE_ID>","type":"user.created","ok":true,"status":204,"ms":…,"error":null,"resent":false,"body":"…"},{…}]
$ webhook attempts APP_ID WEBHOOK_ID
At                        Outcome       Took…  Message…Sent
TIME  accepted 204  …  MESSAGE_ID…{"type":"user.created",…}
TIME  accepted 204  …
$ webhook list APP_ID
ID  URL…Description  Types          State    Waiting since  Last delivery             Last attempt
 1  HOOK…the CRM      user.created   enabled                 TIME  answered 204
 2  FAILING_HOOK…user.restored  enabled                 never
$ webhook resend --project APP_ID WEBHOOK_ID MESSAGE_ID --json
{"ok":true,"status":204,"ms":…,"error":null}
~$ webhook resend APP_ID WEBHOOK_ID MESSAGE_ID
Accepted with 204 after … ms.
$ webhook pause --project APP_ID WEBHOOK_ID --json
{"id":WEBHOOK_ID,"changed":true}
$ webhook pause APP_ID WEBHOOK_ID
Nothing was to do. The webhook WEBHOOK_ID is paused.
$ webhook update --project APP_ID WEBHOOK_ID --description "the new CRM" --types all --json
{"id":WEBHOOK_ID}
$ webhook update APP_ID WEBHOOK_ID --url HOOK
The webhook WEBHOOK_ID is changed, and goes on where it was.
$ webhook list APP_ID --json
[{"id":WEBHOOK_ID,"url":"HOOK","description":"the new CRM","types":[],"status":"paused","reason":"An operator has paused it.","created_at":"TIME","cursor":"…","pending_since":…,"failures":0,"next_attempt_at":null,"last_delivered_at":"TIME","attempts":[{"at":"TIME",…}],"secrets":[{"id":…,"created_at":"TIME","expires_at":null}]},{…}]
$ webhook update APP_ID WEBHOOK_ID
! error: nothing is to be changed: give an option that says what (--help lists them)
! (see userdir webhook update --help)
? 2
$ webhook replay --project APP_ID WEBHOOK_ID --from MESSAGE_ID --json
{"id":WEBHOOK_ID,"from":"MESSAGE_ID"}
$ webhook replay APP_ID WEBHOOK_ID --after now
The webhook WEBHOOK_ID goes on after now.
$ webhook replay APP_ID WEBHOOK_ID
! userdir: --after: got nothing, expected either … or ….
? 2
$ webhook resume --project APP_ID WEBHOOK_ID --json
{"id":WEBHOOK_ID}
$ webhook resume APP_ID WEBHOOK_ID
The webhook WEBHOOK_ID goes on where it was.
$ webhook rotate --project APP_ID WEBHOOK_ID --overlap 24h --json
{"id":WEBHOOK_ID,"url":"HOOK","secret":"whsec_…","previous_expires_at":"TIME"}
$ webhook rotate APP_ID WEBHOOK_ID --yes
ID      WEBHOOK_ID
URL     HOOK
Secret  whsec_…

The old secret no longer signs. The secret is shown only once. The receiver needs it to verify what is sent.
$ webhook remove --project APP_ID WEBHOOK_ID --json
{"id":WEBHOOK_ID}
$ webhook remove APP_ID SECOND_WEBHOOK
The webhook SECOND_WEBHOOK is removed.
$ user search --project APP_ID ada@example.com --json
[{"id":<USER_ID>,"auth_method":"google","auth_value":"g-1","email":"ada@example.com","wallet":null,"external_id":"c-1","created_at":"2026-01-02T00:00:00.000Z","last_login":null,"login_count":3,"banned":false,"metadata":null,"identities":[{"auth_method":"google","auth_value":"g-1","email":"ada@example.com","email_verified":null,"created_at":"2026-01-02T00:00:00.000Z","last_login":null,"primary":true}],"banned_at":null,"banned_until":null,"ban_reason":null,"removed_at":null,"merged_into":null,"accounts":[{"id":…,"network":"stellar","public_key":"ADDRESS","wallet_type":"custodial"}]}]
$ user search APP_ID USER_ID
ID  Method  Value  Email            Created                   State
 1  google  g-1    ada@example.com  2026-01-02T00:00:00.000Z  current
$ user search APP_ID g-1 --json
[{"id":USER_ID,…}]
$ user search APP_ID c-1 --json
[{"id":USER_ID,…}]
$ user search APP_ID ADDRESS --json
[{"id":USER_ID,…}]
$ user search APP_ID --method passkey --value cGFzc2tleQ --json
[{"id":<SECOND_USER>,"auth_method":"passkey","auth_value":"cGFzc2tleQ","email":null,…,"accounts":[]}]
$ user search APP_ID --prefix ADA --json
[{"id":USER_ID,…}]
$ user search APP_ID nobody
No user matches. For the beginning of an email or an ID, use --prefix.
? 1
$ user search APP_ID --prefix nobody --json
[]
? 1
$ user get --project APP_ID USER_ID --json
{"id":USER_ID,"auth_method":"google",…"removed_at":null,"merged_into":null,"accounts":[{…}]}
$ user get APP_ID USER_ID
ID           USER_ID
Method       google
Value        g-1
Email        ada@example.com
Wallet       none
External ID  c-1
Created      2026-01-02T00:00:00.000Z
Last login   never
Logins       3
State        current
Metadata     none
Identity     google g-1 (primary, ada@example.com)
Account      stellar ADDRESS (custodial)
$ user update --project APP_ID USER_ID --email "" --external-id "" --json
{"id":USER_ID,"email":null,"external_id":null,"metadata":null}
$ user update APP_ID USER_ID --email Ada@Example.com --external-id a-1
User USER_ID has the email ada@example.com and the external ID a-1.
$ user update APP_ID SECOND_USER --external-id a-1
! userdir: User USER_ID of this project has this external ID.
? 1
$ user update APP_ID USER_ID --metadata {'plan':'pro'}
! error: option '--metadata …' argument … is invalid. Expected JSON: line 1, column 2: expected …
! (see userdir user update --help)
? 2
$ user update APP_ID USER_ID --metadata [1]
! userdir: --metadata: got … expected a JSON object …
? 2
$ user update APP_ID USER_ID --metadata {}
User USER_ID has the email ada@example.com and the external ID a-1. Metadata: {}
$ user update APP_ID USER_ID --metadata "" --json
{"id":USER_ID,"email":"ada@example.com","external_id":"a-1","metadata":null}
$ user link --project APP_ID USER_ID --method google --value g-2 --email Ada@Work.example --email-verified --json
{"id":USER_ID,"identities":[{"auth_method":"google","auth_value":"g-1",…"primary":true},{"auth_method":"google","auth_value":"g-2","email":"ada@work.example","email_verified":true,"created_at":"TIME","last_login":null,"primary":false}]}
$ user link APP_ID SECOND_USER --method google --value g-2
! userdir: User USER_ID of this project has this identity. If both are one person, merge the users.
? 1
$ user link APP_ID USER_ID --method google --value g-2 --primary
User USER_ID logs in by google g-2 (primary, ada@work.example, verified) and by google g-1 (ada@example.com).
$ user unlink --project APP_ID USER_ID --method google --value g-2 --json
{"id":USER_ID,"identities":[{"auth_method":"google","auth_value":"g-1",…"primary":true}]}
$ user unlink APP_ID USER_ID --method google --value g-1
! userdir: User USER_ID has no other identity to log in with. …
? 1
$ user unlink APP_ID USER_ID --method google
! error: give either --method and --value, or --address
! (see userdir user unlink --help)
? 2
$ user merge APP_ID USER_ID USER_ID --dry-run
! userdir: INTO: got "USER_ID", expected another user.
? 2
$ user merge --project APP_ID SECOND_USER USER_ID --dry-run --json
{"from":SECOND_USER,"into":USER_ID,"merged":false,"effects":[{"name":"Identities","text":"passkey cGFzc2tleQ → user USER_ID"},…]}
$ user merge APP_ID SECOND_USER USER_ID --dry-run
Identities   passkey cGFzc2tleQ → user USER_ID
Accounts     None is new.
Created      2026-01-01T00:00:00.000Z
Last login   …
Logins       0 + 3 = 3
External ID  a-1 stays.

Nothing was changed.
$ user merge APP_ID SECOND_USER USER_ID
! userdir: A merge cannot be undone. Give --yes to do it without being asked.
? 1
$ user update APP_ID USER_ID
! error: nothing is to be changed: give an option that says what (--help lists them)
! (see userdir user update --help)
? 2
$ user list --project APP_ID --contains EXAMPLE --banned no --json
[{"id":USER_ID,"auth_method":"google","auth_value":"g-1","email":"ada@example.com","external_id":"a-1","created_at":"TIME","last_login":null,"login_count":3}]
$ user list APP_ID --login-methods passkey,wallet --end-date 2999-01-31
ID  Method   Value       Email  Created                   Last login
 SECOND_USER  passkey  cGFzc2tleQ         2026-01-01T00:00:00.000Z  2026-01-03T00:00:00.000Z
$ user list APP_ID --auth-methods twitter --limit 10
No user matches.
$ user list APP_ID --login-methods passkeys
! error: … Expected email, passkey, wallet, socials, or several of them separated by commas.
! (see userdir user list --help)
? 2
$ user list APP_ID --auth-methods google,A_
! userdir: --auth-methods[1]: got "A_", expected email, passkey, …
? 2
$ user list APP_ID --last-login-after soon
! userdir: --last-login-after: got "soon", expected a date (2026-01-31) or an RFC 3339 date-time (2026-01-31T12:00:00Z).
? 2
$ user inactive --project APP_ID --since 90d --json
[{"id":USER_ID,"auth_method":"google","auth_value":"g-1","email":"ada@example.com","external_id":"a-1","created_at":"TIME","last_login":null,"login_count":3},{"id":SECOND_USER,"auth_method":"passkey",…"last_login":"2026-01-03T00:00:00.000Z",…}]
$ user inactive APP_ID --since 2026-01-02T12:00:00Z
ID  Method  Value  Email            Created                   Last login
 USER_ID  google  g-1    ada@example.com  2026-01-02T00:00:00.000Z  never
$ user inactive APP_ID --since 90d --limit 1
ID  Method  Value  Email            Created                   Last login
 USER_ID  google  g-1    ada@example.com  2026-01-02T00:00:00.000Z  never
! userdir: There are more inactive users. The next page: --after <INACTIVE>
$ user inactive APP_ID --since 2026-01-02T12:00:00Z --after INACTIVE
No user is inactive.
$ user inactive APP_ID --since 2999-01-31
! error: … Expected a time that is past.
! (see userdir user inactive --help)
? 2
$ user export --project APP_ID --json
{"id":USER_ID,"auth_method":"google","auth_value":"g-1","email":"ada@example.com","wallet":null,"created_at":"2026-01-02T00:00:00.000Z","last_login":null,"login_count":3,"external_id":"a-1","accounts":[{"network":"stellar","public_key":"ADDRESS"}]}
{"id":SECOND_USER,"auth_method":"passkey","auth_value":"cGFzc2tleQ",…}
{"ban":{"auth_method":"apple","auth_value":"a-1","created_at":"TIME"}}
! {"exported":2,"bans":1,"cursor":"<CURSOR>"}
$ user export APP_ID
{"id":USER_ID,…}
{"id":SECOND_USER,…}
{"ban":{…}}
! Exported 2 users and 1 ban.
! What changes from now on: npm run -s userdir -- changes --project APP_ID --after CURSOR
$ user export --project APP_ID --to firebase --json
{"users":[
{"localId":"a-1","email":"ada@example.com","emailVerified":false,"providerUserInfo":[{"providerId":"google.com","rawId":"g-1",…}],…},
{"localId":"userdir-…}
]}
! {"exported":2,"bans":0,"cursor":"<CURSOR>","not_kept":{"emails not known to be verified":1,"login counts":1,"accounts":1,"passkey identities":1,"bans of other identities":1}}
$ user export APP_ID --to auth0
[
{"user_id":"a-1",…}
]
! Exported 1 user.
! Not kept: google identities 1, emails not known to be verified 1, creation dates 2, login counts 1, accounts 1, passkey identities 1, last logins 1, people without email, phone number and username 1, bans of other identities 1.
! What changes from now on: npm run -s userdir -- changes --project APP_ID --after CURSOR
$ user export APP_ID --to xml
! error: … Allowed choices are auth0, firebase, keycloak, scim, csv.
! (see userdir user export --help)
? 2
$ user ban --project APP_ID --method email --value Eve@example.com --reason spam --until 2999-01-01 --json
{"auth_method":"email","auth_value":"Eve@example.com","banned":true,"reason":"spam","expires_at":"2999-01-01T23:59:59.999Z","changed":true}
$ user ban APP_ID --method email --value eve@EXAMPLE.com
Nothing was to do. email eve@EXAMPLE.com is banned until 2999-01-01T23:59:59.999Z.
$ user ban APP_ID --method email --value eve@example.com --reason fraud --until "" --json
{"auth_method":"email",…"banned":true,"reason":"fraud","expires_at":null,"changed":true}
$ user ban APP_ID --method google --value g-1 --until 2999-01-01
google g-1 is banned until 2999-01-01T23:59:59.999Z.
$ user bans --project APP_ID --json
[{"auth_method":"apple","auth_value":"a-1","created_at":"TIME","reason":null,"expires_at":null,"of_user":null},{"auth_method":"email","auth_value":"Eve@example.com",…},{"auth_method":"google",…}]
$ user bans APP_ID
Method  Value            Since                     Until                     Reason
apple   a-1              TIME
email   Eve@example.com  TIME                            fraud
google  g-1              TIME  2999-01-01T23:59:59.999Z
$ user bans APP_ID --limit 2 --json
[{…"auth_value":"a-1",…},{…"auth_value":"Eve@example.com",…}]
! userdir: There are more bans. The next page: --after <BANS>
$ user bans APP_ID --after BANS --json
[{"auth_method":"google","auth_value":"g-1",…}]
$ user unban --project APP_ID --method google --value g-1 --json
{"auth_method":"google","auth_value":"g-1","banned":false,"changed":true}
$ user unban APP_ID --method google --value g-1
Nothing was to do. google g-1 is not banned.
$ user ban APP_ID USER_ID --reason spam --json
{"user_id":USER_ID,"banned":true}
$ user ban APP_ID USER_ID
User USER_ID is banned.
$ user unban APP_ID USER_ID
User USER_ID is not banned.
$ user ban APP_ID USER_ID --method google --value g-1
! error: give either …, or --method and --value
! (see userdir user ban --help)
? 2
$ user remove --project APP_ID USER_ID --json
{"id":USER_ID}
$ user remove APP_ID USER_ID
! userdir: There is no user USER_ID in this project.
? 1
$ user remove APP_ID USER_ID SECOND_USER
There is no user USER_ID in this project.
Removed user SECOND_USER.
? 1
$ user removed --project APP_ID --json
[{"id":SECOND_USER,…"removed_at":"TIME",…},{"id":USER_ID,…"removed_at":"TIME",…}]
$ user removed APP_ID --limit 1
ID  Method   Value       Email  Removed
 2  passkey  cGFzc2tleQ         TIME
! userdir: There are more removed users. The next page: --after <REMOVED>
$ user removed APP_ID --after REMOVED
ID  Method  Value  Email            Removed
 1  google  g-1    ada@example.com  TIME
$ user search APP_ID --removed a-1
ID  Method  Value  Email            Created                   State
 1  google  g-1    ada@example.com  2026-01-02T00:00:00.000Z  removed TIME
$ user restore --project APP_ID USER_ID --json
{"id":USER_ID}
$ user restore APP_ID USER_ID
! userdir: User USER_ID is not removed.
? 1
$ user restore APP_ID USER_ID SECOND_USER --json
[{"id":USER_ID,"code":"CONFLICT","message":"User USER_ID is not removed."},{"id":SECOND_USER}]
? 1
$ user removed APP_ID
No user is removed.
$ user remove APP_ID SECOND_USER
Removed user SECOND_USER.
$ user purge --project APP_ID --older-than 0s --dry-run --json
{"purged":0,"would_purge":1}
$ user purge APP_ID --older-than 0s --dry-run
Would erase 1 removed user of APP_ID. Nothing was erased.
$ user purge APP_ID --older-than 0s --json
{"purged":1}
$ user purge --older-than 0s
Erased 0 removed users of all projects.
$ user restore APP_ID SECOND_USER
! userdir: There is no user SECOND_USER in this project.
? 1
$ wallet verify --project APP_ID --json < ADDRESS ⏎ 0x00000000000000000000000000000000000000aa
{"line":1,"address":"ADDRESS","verdict":"VERIFIED","user_id":USER_ID,"network":"stellar","wallet_type":"custodial","auth_method":"google"}
{"line":2,"address":"0x00000000000000000000000000000000000000aa","verdict":"NOT_OWNED"}
! {"verified":1,"not_owned":1,"malformed":0,"errors":[]}
$ wallet verify APP_ID
! Verified 0, not owned 0, malformed 0.
$ wallet verify APP_ID /none
! userdir: The file /none does not exist.
? 1
~$ changes --project APP_ID --types identity.unbanned,user.removed,user.restored --json
{"id":"…","type":"identity.unbanned","at":"TIME","user_id":USER_ID}
{"id":"…","type":"identity.unbanned","at":"TIME","user_id":USER_ID}
{"id":"…","type":"user.removed","at":"TIME","user_id":USER_ID}
{"id":"…","type":"user.removed","at":"TIME","user_id":SECOND_USER}
{"id":"…","type":"user.restored","at":"TIME","user_id":USER_ID}
{"id":"…","type":"user.restored","at":"TIME","user_id":SECOND_USER}
{"id":"…","type":"user.removed","at":"TIME","user_id":SECOND_USER}
! {"written":7,"end":"<LAST>"}
$ changes APP_ID --after CURSOR --types user.restored
{"id":"…","type":"user.restored","at":"TIME","user_id":USER_ID}
{"id":"…","type":"user.restored","at":"TIME","user_id":SECOND_USER}
! 2 changes. The next ones come after LAST
$ changes APP_ID --types user.born
! userdir: --types: got "user.born", expected …
? 2
$ operator add Bob --role support --project APP_ID --project SECOND --json
{"name":"<OPERATOR>","role":"support","projects":["APP_ID","SECOND"]}
$ operator add bob --role admin
! userdir: There is an operator "bob" already.
? 1
$ operator add ada --role admin
Added ada as admin in all projects. Make a link to sign in: npm run -s userdir -- dashboard --operator ada
$ operator list --json
[{"name":"ada","role":"admin","projects":null,"source":"added","created_at":"TIME","last_seen_at":null},{"name":"bob","role":"support","projects":["APP_ID","SECOND"],…},{"name":"keyed",…}]
$ operator list
Name   Role     Projects…Source  Created                   Last seen
ada    admin    all…added   TIME  never
bob    support  APP_ID, SECOND  added   TIME  never
keyed  viewer   all…added   TIME  never
$ operator update OPERATOR --role viewer --name Bob.H --json
{"name":"<OPERATOR>","role":"viewer","projects":["APP_ID","SECOND"]}
$ operator update bob.h --project APP_ID --json
{"name":"bob.h","role":"viewer","projects":["APP_ID"]}
$ operator update bob.h --all-projects
bob.h is viewer in all projects.
$ operator update bob.h
! error: nothing is to be changed: give an option that says what (--help lists them)
! (see userdir operator update --help)
? 2
$ operator update ada --role support
ada is support in all projects.
! userdir: No admin of all projects is left: …
$ operator passkeys OPERATOR --json
[]
$ operator passkeys
ID  Operator  Name   Works at   Created                   Last used
 2  keyed     key 2  localhost  TIME  never
 1  keyed     key 1  localhost  TIME  never
$ operator remove-passkey PASSKEY_ID --json
{"id":PASSKEY_ID,"name":"key 1","operator":"keyed"}
$ operator remove-passkey 2
Removed the passkey 2 (key 2) of keyed….
$ dashboard --operator OPERATOR --json
{"url":"http://127.0.0.1:…/dashboard#login=…","expires_at":"TIME"}
$ dashboard --operator ada
http://127.0.0.1:…/dashboard#login=…

It works once, until TIME.
For a passkey, open it at localhost instead of 127.0.0.1.
$ dashboard
! userdir: There is no operator "tester". Name one of ada, bob.h, keyed by --operator, or add one: …
? 1
$ operator remove OPERATOR --json
{"name":"bob.h"}
! userdir: No admin of all projects is left: …
$ operator remove ada
Removed ada.
! userdir: No admin of all projects is left: …
$ operator log --limit 1 --json
[{"id":…,"at":"TIME","actor":"operator:tester","request_id":null,"action":"remove_operator","details":{"operator":"ada"}}]
$ operator log
At                        Actor            Action           Details
TIME  operator:tester  add_operator     {"role":"support","operator":"bob","projects":["APP_ID","SECOND"]}
TIME  operator:tester  add_operator     {"role":"admin","operator":"ada"}
TIME  operator:tester  update_operator  {"name":"bob.h","role":"viewer","operator":"bob"}
TIME  operator:tester  update_operator  {"operator":"bob.h","projects":["APP_ID"]}
TIME  operator:tester  update_operator  {"operator":"bob.h","projects":"all"}
TIME  operator:tester  update_operator  {"role":"support","operator":"ada"}
TIME  operator:tester  remove_passkey   {"name":"key 1","passkey":1,"operator":"keyed"}
TIME  operator:tester  remove_passkey   {"name":"key 2","passkey":2,"operator":"keyed"}
TIME  operator:tester  make_link        {"operator":"bob.h"}
TIME  operator:tester  make_link        {"operator":"ada"}
TIME  operator:tester  remove_operator  {"operator":"bob.h"}
TIME  operator:tester  remove_operator  {"operator":"ada"}
$ seed --project APP_ID --users 3 --seed 7 --json
{"users":3,"accounts":…}
$ seed APP_ID --users 3 --seed 7
Added 0 users with 0 accounts.
$ totals check --project APP_ID --json
{"projects":1,"differences":[],"repaired":false}
$ totals check
Checked 2 projects: all agree.
$ doctor --json
{"ok":true,"findings":[{"id":"settings","status":"passed",…]}
$ audit --project APP_ID --limit 1 --json
[{"id":…,"at":"TIME","actor":"operator:tester","request_id":null,"action":"purge","user_id":null,"details":{"purged":1}}]
$ audit APP_ID --limit 1
At                        Actor            Action  User  Details
TIME  operator:tester  purge         {"purged":1}
$ audit APP_ID --since 9999-12-31
The audit trail has no entries.
$ project delete SECOND
! userdir: Deleting a project cannot be undone. Give --yes to do it without being asked.
? 1
$ project delete --project SECOND --yes --json
{"id":2,"name":"Second","app_id":"SECOND","users":0}
$ project create --name Third --json
{"id":3,"name":"Third","app_id":"<THIRD>",…}
$ project delete THIRD --yes
Deleted the project Third and 0 users, removed ones included.
$ restored --json
{"restored_at":"TIME"}
$ restored
Noted at TIME: new IDs begin far beyond the known ones, and webhooks are paused.
`;

interface Step {
  /** The words of the command, such as `user import`. */
  readonly line: string;
  readonly input: string;
  readonly isRepeated: boolean;
  /** What it prints, and its exit code as the last line if that is not 0. */
  readonly output: string;
}

const STEPS = SESSION.trim()
  .split(/\n(?=~?\$ )/)
  .map((text): Step => {
    const [head = '', ...lines] = text.split('\n');
    const [, tilde = '', line = '', input = ''] = /^(~?)\$ (.*?)(?: < (.*))?$/.exec(head) ?? [];
    return { line, input, isRepeated: tilde !== '', output: lines.join('\n') };
  });

/** What stands for a name in the session. */
const values: Record<string, string> = { ADDRESS: stellarAddress(1), PASSKEY_ID: '1' };
const withValues = (text: string) => text.replaceAll(/\b[A-Z_]{4,}\b/g, (name) => values[name] ?? name);
const wordsOf = (line: string) =>
  [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, text, word]) => withValues(text ?? word ?? ''));

/** What is printed where the session says so. */
function patternOf(output: string): RegExp {
  const names = { '…': '[^\\n]*', TIME: '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z' };
  const parts = output.split(/(…|\bTIME\b|<[A-Z_]+>)/).map((part, index) => {
    if (index % 2 === 0) return withValues(part).replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
    return names[part as keyof typeof names] ?? `(?${part}[^\\s"]+)`;
  });
  return new RegExp(`^${parts.join('')}$`);
}

const server = useServer({
  settings: { WEBHOOKS_ALLOW_PRIVATE: 'on' },
  async fill({ db }) {
    await db.pool.query("INSERT INTO operators (name, role) VALUES ('keyed', 'viewer')");
    await db.pool.query(`
      INSERT INTO operator_passkeys (operator_id, name, host, credential_id, public_key, counter)
      SELECT 1, 'key ' || n, 'localhost', n::text::bytea, '', 0 FROM generate_series(1, 2) AS n`);
  },
});
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
  receiver.answer('/fails', (response) => response.writeHead(500).end());
  Object.assign(values, { HOOK: receiver.url('/accepts'), FAILING_HOOK: receiver.url('/fails') });
});
afterAll(() => receiver.close());

describe('a session with every command', () => {
  test.each(STEPS)('$line', async ({ line, input, isRepeated, output }) => {
    const pattern = patternOf(output);
    const attempt = async () => {
      const { code, stdout, stderr } = await server.runWith(
        withValues(input).replaceAll(' ⏎ ', '\n'),
        ...wordsOf(line),
      );
      const printed = `${stdout}${stderr.replaceAll(/^(?=.)/gm, '! ')}${code === 0 ? '' : `? ${code}\n`}`.trimEnd();
      expect(printed).toMatch(pattern);
      Object.assign(values, pattern.exec(printed)?.groups);
    };
    await (isRepeated ? vi.waitFor(attempt, PATIENCE) : attempt());
  });

  test('has recorded what it changed, and nothing where nothing was to do', async () => {
    const trail: Json[] = await server.runJson('audit', '--project', `${values['APP_ID']}`);
    const actions = `create rename limit limit disable enable add_secret add_secret rotate rotate revoke add_webhook
      add_webhook test_webhook test_webhook test_webhook import import import resend_webhook resend_webhook
      pause_webhook update_webhook update_webhook replay_webhook replay_webhook resume_webhook resume_webhook
      rotate_webhook rotate_webhook remove_webhook remove_webhook update update update update link link unlink export export export export ban ban ban unban ban unban
      remove remove restore restore remove purge`;
    expect(trail.map(({ action }) => action)).toEqual(actions.split(/\s+/));
    expect(trail[1]?.details).toEqual({ from: 'Müller & Co', to: 'Test' });
    expect(new Set(trail.map(({ actor }) => actor))).toEqual(new Set(['operator:tester']));
  });
});

const LEAVES = leafCommands(createProgram({}));
const nameOf = (command: Command): string =>
  command.parent?.parent ? `${nameOf(command.parent)} ${command.name()}` : command.name();
const firstStepOf = (command: Command) => STEPS.find(({ line }) => `${line} `.startsWith(`${nameOf(command)} `));

test('the session has every command of the help, with --json and without', () => {
  // `serve` does not end (serve.test.ts), and `doctor` tells of this machine (doctor.test.ts).
  const names = LEAVES.map(nameOf).filter((name) => name !== 'serve');
  const lacks = (name: string, isJson: boolean) =>
    !STEPS.some(({ line }) => `${line} `.startsWith(`${name} `) && line.includes('--json') === isJson);
  expect(names.filter((name) => lacks(name, true))).toEqual([]);
  expect(names.filter((name) => lacks(name, false))).toEqual(['doctor']);
});

/** What is said of something that is not there, by its name in the session. */
const MISSING: Record<string, [value: string, sentence: string]> = {
  APP_ID: ['app_nobody', 'There is no project with the App ID "app_nobody".'],
  SECOND: ['app_nobody', 'There is no project with the App ID "app_nobody".'],
  USER_ID: ['999', 'There is no user 999 in this project.'],
  SECRET_ID: ['999', 'The project has no secret 999.'],
  WEBHOOK_ID: ['999', 'The project has no webhook 999.'],
  PASSKEY_ID: ['999', 'There is no passkey 999.'],
  OPERATOR: ['nobody', 'There is no operator "nobody".'],
};

// The engine has no part in it.
const isOnce = inject('engine') === 'postgres' || process.env['TEST_DATABASE_URL'] === undefined;

describe.runIf(isOnce)('what is missing is named', () => {
  const commands = LEAVES.flatMap((command) => {
    const { line = '', input = '' } = firstStepOf(command) ?? {};
    const names = Object.keys(MISSING).filter((name) => new RegExp(`\\b${name}\\b`).test(line));
    return names.map((name) => [nameOf(command), name, line, input] as const);
  });

  test('by every command of a project', () => {
    const ofProject = LEAVES.filter(({ options }) => options.some(({ long }) => long === '--project')).map(nameOf);
    const tried = commands.filter(([, name]) => /APP_ID|SECOND/.test(name)).map(([command]) => command);
    // An operator who is changed may keep theirs.
    expect(ofProject.filter((name) => !tried.includes(name))).toEqual(['operator update']);
  });

  test.each(commands)('%s: %s', async (_, name, line, input) => {
    const [value, sentence] = MISSING[name] as [string, string];
    const words = wordsOf(line.replace(new RegExp(`\\b${name}\\b`), value));
    expect(await server.runWith(withValues(input), ...words)).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: line.includes('--json')
        ? `${JSON.stringify({ error: { code: 'NOT_FOUND', message: sentence } })}\n`
        : `userdir: ${sentence}\n`,
    });
  });
});

test('seed adds the same users for the same seed, and others for another', async () => {
  const usersOf = async (seed: string, ...options: string[]) => {
    const project = await server.createProject();
    await server.runJson('seed', '--project', project.app_id, '--users', '40', '--seed', seed, ...options);
    const { body } = await call(server.url(), project, '/server/users?limit=100');
    return JSON.stringify(body.result.users).replaceAll(/"id":\d+,/g, '');
  };
  const [one, same, other] = [await usersOf('7'), await usersOf('7'), await usersOf('8')];
  expect(same).toEqual(one);
  expect(other).not.toEqual(one);
  // They end near today, or near the day that is given: all times are moved together.
  const times = (users: string) =>
    [...users.matchAll(/"(?:created_at|last_login)":"([^"]+)"/g)].map(([, at = '']) => at);
  const before = (users: string, day: string) =>
    (Date.parse(day) - Math.max(...times(users).map(Date.parse))) / 86_400_000;
  const today = new Date().toISOString().slice(0, 10);
  expect(before(one, today)).toBeGreaterThan(-1);
  expect(before(one, today)).toBeLessThan(120);
  const [given, again] = [await usersOf('7', '--until', '2020-02-29'), await usersOf('7', '--until', '2020-02-29')];
  expect(again).toEqual(given);
  expect(before(given, '2020-02-29')).toBeGreaterThanOrEqual(0);
  const withoutTimes = (users: string) => users.replaceAll(/"\d{4}-\d\d-[^"]+Z"/g, '""');
  expect(withoutTimes(given)).toBe(withoutTimes(one));
  for (const wrong of ['2020-02-30', '1999-12-31', '2999-01-01', 'yesterday'])
    await expect(usersOf('7', '--until', wrong)).rejects.toThrow('until');
});

describe('while no server runs,', () => {
  const database = useDatabase();

  test('commands give the same results, and the next command sees their changes', async () => {
    const run = (...args: string[]) => userdirJson(database.env, args);
    expect(await run('migrate')).toEqual({ applied: [] });
    const { app_id: appId, ...created } = await run('project', 'create', '--name', 'Test');
    expect(created).toEqual({ id: 1, name: 'Test', app_secret: expect.stringMatching(/^uds_/) });
    expect(await run('seed', appId, '--users', '3')).toEqual({ users: 3, accounts: expect.any(Number) });
    const exported = await userdir(database.env, ['user', 'export', appId]);
    expect(exported).toMatchObject({ code: 0, stderr: expect.stringMatching(/^Exported 3 users\.\n/) });
    expect(
      await userdirJson(database.env, ['user', 'import', appId, '--on-conflict', 'skip'], exported.stdout),
    ).toMatchObject({ imported: 0, skipped: 3, failed: 0, errors: [] });
    expect(await run('user', 'remove', appId, '1')).toEqual({ id: 1 });
    expect(await run('user', 'purge', '--older-than', '0s')).toEqual({ purged: 1 });
    expect(await run('project', 'list')).toMatchObject([{ app_id: appId, total_user: 2 }]);
    expect(await userdir(database.env, ['user', 'remove', appId, '1'])).toMatchObject({
      code: 1,
      stderr: 'userdir: There is no user 1 in this project.\n',
    });
  });

  test('the first command creates the database', async () => {
    const names = (await readdir('prisma/migrations')).filter((name) => /^\d{14}_/.test(name)).sort();
    await using empty = await createEmptyDatabase();
    expect(await userdirJson(empty.env, ['migrate'])).toEqual({ applied: names });
    expect(await userdir(empty.env, ['project', 'list'])).toMatchObject({ code: 0, stderr: '' });
  });
});
