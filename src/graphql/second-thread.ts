import type { Services } from '../context.js';
import { type Answer, type HttpRequest, operationOf } from '../engine/answer.js';
import { type Parameters, prepareRequest, weightOfRequest } from '../engine/execution.js';
import type { LoggedOperation } from '../http/request-log.js';
import { isSliceOver, nextSlice, type PlainData, type Requester } from '../http/threads.js';
import { contextOf } from './builder.js';
import { engine } from './schema.js';

/* GraphQL requests in the second thread (app/second-thread.ts). */

/** A request that the first thread has authenticated, and whose JSON it has checked. */
export interface ThreadRequest extends HttpRequest, PlainData {
  readonly body: PlainData['body'];
  /** Without the variables, which are read from the body or from the URL. */
  readonly parameters: Omit<Parameters, 'variables'>;
  /** Whether its weight is known, so that it is not to be added. */
  readonly isWeighed: boolean;
}

/** What became of a request. */
export interface ThreadAnswer extends PlainData {
  /** Without its body. Null for a subscription, which the first thread has to answer. */
  readonly answer: Omit<Answer, 'body'> | null;
  readonly operation: LoggedOperation | null;
  readonly isValid: boolean;
  /** The weight of executing it. */
  readonly weight: number;
}

/** Answers what the first thread hands over. `onFailure` is told of errors that belong to no resolver. */
export function createThreadAnswerer(services: Services, onFailure: (cause: unknown) => void) {
  const documents = engine.createDocumentCache();
  const answerer = engine.createAnswerer(documents, {
    report: ({ cause }) => onFailure(cause),
    docsOf: services.docsOf,
  });
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();

  return {
    async answer(requester: Requester, asked: ThreadRequest): Promise<ThreadAnswer> {
      const { appId } = requester.scope;
      if (isSliceOver()) await nextSlice(appId);
      const json = asked.body === null ? null : decoder.decode(asked.body);
      const parameters = { ...asked.parameters, variables: variablesOf(asked.url, json) };
      const prepared = prepareRequest(documents.findOrRead(parameters.query, appId), parameters);
      const weight = weightOfRequest(prepared);
      const operation = operationOf(prepared);
      const summary = { operation, isValid: prepared.document.tree !== null, weight };
      if (prepared.refusal === null && operation?.type === 'subscription')
        return { ...summary, answer: null, body: null };
      if (!asked.isWeighed) requester.addWeight(weight);
      if (isSliceOver()) await nextSlice(appId);
      const context = contextOf(requester, prepared, services);
      const { body, ...answer } = await answerer.answer({ ...asked, body: json }, prepared, context);
      return { ...summary, answer, body: encoder.encode(body) };
    },
    dispose: answerer.dispose,
  };
}

/** The variables in the body or in the URL. The first thread has checked the form of both. */
function variablesOf(url: string, json: string | null): Parameters['variables'] {
  if (json !== null) return JSON.parse(json).variables ?? undefined;
  const text = new URL(url, 'http://localhost').searchParams.get('variables');
  return text ? (JSON.parse(text) ?? undefined) : undefined;
}
