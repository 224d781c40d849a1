/** What this browser keeps for the board. A browser that keeps nothing (private windows) is no error. */

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
      // Full or forbidden: the page works without.
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
