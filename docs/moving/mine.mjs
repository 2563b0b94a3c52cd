/** A system of your own for `userdir user import --from ./mine.mjs members.json`, which runs it: one record of its file, and the person that it is. */
export default {
  name: 'mine',
  title: 'my system',
  idFields: ['uid'],
  lists: ['members'],
  fields: ['uid', 'mail', 'confirmed', 'joined'],
  toPerson: ({ uid, mail, confirmed, joined }) => ({
    id: String(uid),
    logins: [{ by: 'email', value: mail, verified: confirmed === true }],
    createdAt: joined,
  }),
};
