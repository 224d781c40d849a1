/** Findings of the check of memory accesses. */

import type { AccessReport, Finding } from "../contract";
import * as format from "../format";
import { KINDS, isNote } from "../observed";
import { Line } from "./line";
import { Wide } from "./wide";

interface Properties {
  report: AccessReport;
  goTo?: (line: number, column: number) => void;
}

export function Findings({ report, goTo }: Properties) {
  const cases = format.count(report.cases.length, "case");
  return (
    <section class="findings" aria-label="Memory accesses">
      {report.findings.length === 0 ? (
        <p>
          No races, no accesses out of bounds and no reads of uninitialised local memory in {cases}:{" "}
          {report.cases.join("; ")}.
        </p>
      ) : (
        <Wide label="Findings">
          <table class="cases" aria-label="Findings">
            <thead>
              <tr>
                <th class="right">line</th>
                <th>problem</th>
                <th class="right">times</th>
              </tr>
            </thead>
            <tbody>
              {report.findings.map((finding, index) => (
                <Row key={index} finding={finding} goTo={goTo} />
              ))}
            </tbody>
          </table>
        </Wide>
      )}
      {report.more > 0 && <p class="dim">{format.whole(report.more)} more are not listed.</p>}
      {report.stopped !== "" && <p class="dim">{format.sentence(report.stopped)}.</p>}
      {report.unchecked > 0 && (
        <p class="dim">{format.whole(report.unchecked)} accesses to global memory were not compared: there were too many.</p>
      )}
      {report.findings.length > 0 && report.cases.length > 0 && (
        <p class="small dim">
          {cases} ran to the end: {report.cases.join("; ")}.
        </p>
      )}
    </section>
  );
}

function Row({ finding, goTo }: { finding: Finding; goTo?: (line: number, column: number) => void }) {
  return (
    <tr class={isNote(finding.kind) ? undefined : "bad"}>
      <td class="right number">
        <Line line={finding.line} goTo={goTo} />
        {finding.other_line !== null && (
          <>
            {" "}
            and <Line line={finding.other_line} goTo={goTo} />
          </>
        )}
      </td>
      <td class="finding">
        <strong>{KINDS[finding.kind]}</strong>
        {isNote(finding.kind) && <span class="chip">note</span>}
        <p>{format.sentence(finding.message)}.</p>
        {finding.details.length > 0 && (
          <details>
            <summary>Accesses</summary>
            <ul class="small mono">
              {finding.details.map((text) => (
                <li key={text}>{text}</li>
              ))}
            </ul>
          </details>
        )}
      </td>
      <td class="right number">{format.whole(finding.count)}</td>
    </tr>
  );
}
