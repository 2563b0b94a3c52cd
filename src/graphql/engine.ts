import { createEngine } from '../engine/engine.js';
import { schema, shownSchema } from './schema.js';

/** What runs the documents of callers. */
export const engine = createEngine(schema, { shown: shownSchema });
