/** One of a few, as joined buttons: radio buttons to a keyboard and a screen reader. */
export type ChoiceProps<T extends string> = { label: string; name: string; value: T; choices: Record<T, string>; onChoose: (value: T) => void };

export function Choice<T extends string>({ label, name, value, choices, onChoose }: ChoiceProps<T>) {
  return (
    <fieldset className="choice">
      <legend className="visually-hidden">{label}</legend>
      {(Object.entries(choices) as Array<[T, string]>).map(([choice, text]) => (
        <label key={choice}>
          <input type="radio" name={name} value={choice} checked={choice === value} onChange={() => onChoose(choice)} />
          <span>{text}</span>
        </label>
      ))}
    </fieldset>
  );
}
