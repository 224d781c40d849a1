/** Icons on a 16 by 16 grid, in the colour of the surrounding text. */

const PATHS: Record<string, string> = {
  check: "M3 8.500l3.200 3.200L13 5",
  cross: "M4 4l8 8M12 4l-8 8",
  sun: "M8 5.200a2.800 2.800 0 100 5.600 2.800 2.800 0 000-5.600zM8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M3.400 12.600l.9-.9M11.700 4.300l.9-.9",
  moon: "M13 9.700A5.500 5.500 0 116.300 3a4.400 4.400 0 006.700 6.700z",
  key: "M9.800 6.200a2.700 2.700 0 11-1 2.100M9 7.700L3 13.500M4.600 12l1.300 1.300M6.600 10l1.200 1.200",
  help: "M6 6.200A2 2 0 118.700 8c-.5.300-.7.600-.7 1.200M8 11.400v.1",
  reset: "M3.300 8a4.700 4.700 0 104.700-4.700H4.500M6.600 1.200L4.500 3.300l2.100 2.100",
  play: "M5 3.500v9l7-4.500z",
  up: "M8 13V3.500M4 7.300L8 3.300l4 4",
  user: "M8 2.700a2.700 2.700 0 100 5.400 2.700 2.700 0 000-5.400zM2.800 13.500c.6-2.700 2.600-4 5.200-4s4.600 1.300 5.200 4",
  search: "M7 3a4 4 0 100 8 4 4 0 000-8zM10 10l3 3",
  bars: "M3 13V8M8 13V3M13 13V6",
  chip: "M4.500 4.500h7v7h-7zM6.500 2v2.500M9.500 2v2.500M6.500 11.500V14M9.500 11.500V14M2 6.500h2.500M2 9.500h2.500M11.500 6.500H14M11.500 9.500H14",
};

export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg
      width="16"
      height="16"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
