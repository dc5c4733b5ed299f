import { loading } from "../parts/states.js";
export async function show(element, { text }) { loading(element, text); return () => {}; }
