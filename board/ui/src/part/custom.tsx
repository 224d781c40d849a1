/** The form of custom inputs. */

import { useSignal } from "@preact/signals";
import type { CustomForm, CustomInput } from "../contract";
import { type Draft, type Field, FILLS, type FillKind, Mistake, load, request, save } from "../custom";
import * as format from "../format";
import { Icon } from "./icon";

interface Properties {
  slug: string;
  form: CustomForm;
  busy: boolean;
  run: (input: CustomInput) => void;
}

export function Custom({ slug, form, busy, run }: Properties) {
  const draft = useSignal<Draft>(load(slug, form));
  const mistake = useSignal("");
  const change = (next: Draft) => {
    draft.value = next;
    mistake.value = "";
    save(slug, next);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    try {
      run(request(draft.value));
    } catch (cause) {
      if (!(cause instanceof Mistake)) throw cause;
      mistake.value = cause.message;
    }
  };
  const number = (group: "sizes" | "values", name: string) => (
    <label key={`${group} ${name}`}>
      <code>{name}</code>
      <input
        class="field"
        inputMode={group === "sizes" ? "numeric" : "decimal"}
        value={draft.value[group][name]}
        onInput={(event) => change({ ...draft.value, [group]: { ...draft.value[group], [name]: event.currentTarget.value } })}
      />
    </label>
  );
  return (
    <form class="custom" aria-label="Custom input" onSubmit={submit}>
      <fieldset>
        <legend>Sizes and scalars</legend>
        <div class="custom-numbers">
          {Object.keys(form.sizes).map((name) => number("sizes", name))}
          {Object.keys(form.values).map((name) => number("values", name))}
          <label title="Another seed gives other random numbers">
            seed
            <input
              class="field"
              inputMode="numeric"
              value={draft.value.seed}
              onInput={(event) => change({ ...draft.value, seed: event.currentTarget.value })}
            />
          </label>
        </div>
      </fieldset>
      <fieldset>
        <legend>Inputs</legend>
        {form.inputs.map(({ name, shape, fixed }) => (
          <Input
            key={name}
            name={name}
            shape={shape}
            fixed={fixed}
            field={draft.value.inputs[name]!}
            change={(field) => change({ ...draft.value, inputs: { ...draft.value.inputs, [name]: field } })}
          />
        ))}
      </fieldset>
      {mistake.value !== "" && (
        <p class="custom-mistake" role="alert">
          {mistake.value}
        </p>
      )}
      <div class="row">
        <button type="submit" class="button primary" disabled={busy}>
          <Icon name="play" />
          Run
        </button>
        <span class="small dim">
          at most {format.whole(form.most_elements)} elements; sizes must be such as the statement allows
        </span>
      </div>
    </form>
  );
}

interface InputProperties {
  name: string;
  shape: string[];
  fixed: boolean;
  field: Field;
  change: (field: Field) => void;
}

function Input({ name, shape, fixed, field, change }: InputProperties) {
  const part = (key: "value" | "low" | "high", label: string) => (
    <label>
      <span class="hidden-visually">
        {label} of {name}
      </span>
      <input
        class="field"
        inputMode="decimal"
        value={field[key]}
        placeholder={label}
        onInput={(event) => change({ ...field, [key]: event.currentTarget.value })}
      />
    </label>
  );
  return (
    <div class="custom-input">
      <label>
        <span>
          <code>{name}</code> <span class="small dim number">{shape.join(" × ")}</span>
        </span>
        {fixed ? (
          <span class="small dim">made by the problem: its numbers depend on each other</span>
        ) : (
          <select class="field" value={field.kind} onChange={(event) => change({ ...field, kind: event.currentTarget.value as FillKind })}>
            {FILLS.map(([kind, label]) => (
              <option key={kind} value={kind}>
                {label}
              </option>
            ))}
          </select>
        )}
      </label>
      {!fixed && field.kind === "constant" && part("value", "number")}
      {!fixed && field.kind === "uniform" && (
        <>
          {part("low", "least number")}
          {part("high", "largest number")}
        </>
      )}
      {!fixed && field.kind === "values" && (
        <textarea
          class="field mono"
          rows={3}
          aria-label={`Values of ${name}`}
          placeholder="1 2.5 -3, row by row"
          value={field.values}
          onInput={(event) => change({ ...field, values: event.currentTarget.value })}
        />
      )}
    </div>
  );
}
