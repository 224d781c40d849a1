/** Local storage of the browser. Its absence (private windows) is not an error. */

const PREFIX = "remora.";

export const stored = {
  get(name: string): string | null {
    try {
      return localStorage.getItem(PREFIX + name);
    } catch {
      return null;
    }
  },
  set(name: string, value: string): void {
    try {
      localStorage.setItem(PREFIX + name, value);
    } catch {
      // Storage is full or forbidden; the page works without it.
    }
  },
  remove(name: string): void {
    try {
      localStorage.removeItem(PREFIX + name);
    } catch {
      // As above.
    }
  },
};
