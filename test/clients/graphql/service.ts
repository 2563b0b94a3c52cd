/** The service and the credentials that the test has started this client with. */
export const url: string = `${process.env['SERVICE_URL']}/graphql`;
export const headers: Record<string, string> = {
  'service-app-id': process.env['APP_ID'] ?? '',
  'service-app-secret': process.env['APP_SECRET'] ?? '',
};

/** What the client has seen, for the test to judge. */
export function report(seen: Record<string, unknown>): void {
  process.stdout.write(JSON.stringify(seen));
}
