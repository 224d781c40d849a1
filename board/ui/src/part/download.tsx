/** Download button for a file from the server. A plain link would not send the API key. */

import * as api from "../api";
import { refused } from "../notice";

export function Download({ path, name, label }: { path: string; name: string; label: string }) {
  const take = async () => {
    try {
      const address = URL.createObjectURL(await api.file(path));
      const link = document.createElement("a");
      link.href = address;
      link.download = name;
      link.click();
      URL.revokeObjectURL(address);
    } catch (cause) {
      refused(cause);
    }
  };
  return (
    <button type="button" class="button" onClick={() => void take()}>
      {label}
    </button>
  );
}
