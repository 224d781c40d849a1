/** Addresses of the login page, and where a login returns to. */

const LOGIN = /^\/login([/?]|$)/;

/** The address of the login page that returns to a page. */
export function loginAddress(from: string): string {
  return from === "/" || LOGIN.test(from) ? "/login" : `/login?${new URLSearchParams({ return: from })}`;
}

/** The path to return to: of this server alone, whatever the address of the login page says. */
export function returnPath(wanted: string): string {
  const isLocal = /^\/(?!\/)[^\\\p{Cc}]*$/u.test(wanted);
  return isLocal && !LOGIN.test(wanted) ? wanted : "/";
}
