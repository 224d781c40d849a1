/** HTML of a frame that shows a page of the board. */

export function frame(address: string, title: string, height: number): string {
  return `<iframe src="${escape(address)}" title="${escape(title)}" width="420" height="${height}" loading="lazy" sandbox="allow-popups"></iframe>`;
}

function escape(text: string): string {
  const names: Record<string, string> = { "&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;" };
  return text.replace(/[&"<>]/g, (letter) => names[letter] ?? letter);
}
