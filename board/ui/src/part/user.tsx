/** Name of a user, linked to the profile. */

export function User({ name }: { name: string }) {
  return (
    <a class="quiet" href={`/users/${encodeURIComponent(name)}`}>
      {name}
    </a>
  );
}
