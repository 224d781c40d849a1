/** A line number of the source, which leads to the line where there is an editor. */

interface Properties {
  line: number | null;
  goTo?: (line: number, column: number) => void;
}

export function Line({ line, goTo }: Properties) {
  if (line === null) return <span class="dim">–</span>;
  if (goTo === undefined) return <>{line}</>;
  return (
    <button type="button" class="place" title={`Go to line ${line}`} onClick={() => goTo(line, 1)}>
      {line}
    </button>
  );
}
