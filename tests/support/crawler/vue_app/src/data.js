import { ref } from "vue";

/** What an address of the API answers; null until then. */
export function data(path) {
  const value = ref(null);
  fetch(`/api${path}.json`).then((answer) => answer.json()).then((told) => { value.value = told; });
  return value;
}
