import { type Signal, useSignal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { OPERATOR_NAME_FORM } from '#dist/domain/input-limits.js';
import { OPERATOR_ROLES, ROLE_MEANINGS } from '#dist/domain/operator-roles.js';
import { nameOf } from '#dist/domain/spelling.js';
import { Choices, FormDialog, TextField } from './form.js';
import { graphql, useQuery, type VariablesOf } from './graphql.js';
import { command, sending } from './recipes.js';

/** Adds or changes an operator: their name, their role, and their projects. */

const ADD = graphql(`
  mutation AddOperator($name: String!, $role: OperatorRole!, $appIds: [ID!]) {
    addOperator(name: $name, role: $role, appIds: $appIds) { name }
  }
`);
const UPDATE = graphql(`
  mutation UpdateOperator($name: String!, $input: UpdateOperatorInput!) {
    updateOperator(name: $name, input: $input) { name }
  }
`);
const FIND_PROJECTS = graphql(`
  query FindProjects($search: String) { projects(search: $search, first: 10) { nodes { appId name } } }
`);

type Role = VariablesOf<typeof ADD>['role'];
const ROLES = Object.fromEntries(
  OPERATOR_ROLES.map((role) => [nameOf(role), `${role}: ${ROLE_MEANINGS[role]}`]),
) as Record<Role, string>;
const REACH = {
  ALL: 'all projects, also those to come',
  SOME: 'only some: no others are seen, nor the status and the operators',
};

interface Project {
  readonly appId: string;
  readonly name: string;
}

interface Operator {
  readonly name: string;
  readonly role: Role;
  /** Null: all. */
  readonly projects: readonly Project[] | null;
}

interface Fields {
  readonly name: Signal<string>;
  readonly role: Role;
  readonly setRole: (role: Role) => void;
  readonly projects: Operator['projects'];
  readonly setProjects: (projects: Operator['projects']) => void;
}

function useFields(operator: Operator): Fields {
  const name = useSignal(operator.name);
  const [role, setRole] = useState(operator.role);
  const [projects, setProjects] = useState(operator.projects);
  return { name, role, setRole, projects, setProjects };
}

const idsOf = (projects: Operator['projects']) => (projects === null ? null : projects.map(({ appId }) => appId));
function OperatorFields({ name, role, setRole, projects, setProjects }: Fields) {
  return (
    <>
      <TextField
        label="Name"
        hint={`As the audit trail shows it, one for each person: ${OPERATOR_NAME_FORM}`}
        text={name}
        name="name"
        required
      />
      <Choices legend="Role" options={ROLES} chosen={[role]} isOne onChange={([one = role]) => setRole(one)} />
      <Choices
        legend="Projects"
        options={REACH}
        chosen={[projects ? 'SOME' : 'ALL']}
        isOne
        onChange={([one]) => setProjects(one === 'SOME' ? [] : null)}
      />
      {projects && <ProjectChoice chosen={projects} onChange={setProjects} />}
      {projects?.length === 0 && <p role="status">Choose at least one project.</p>}
    </>
  );
}

/** The projects that are chosen, and those that a search finds. */
function ProjectChoice({ chosen, onChange }: { chosen: readonly Project[]; onChange: (chosen: Project[]) => void }) {
  const search = useSignal('');
  const matches = useQuery(FIND_PROJECTS, { search: search.value }).data?.projects.nodes ?? [];
  const shown = new Map([...chosen, ...matches].map((project) => [project.appId, project]));
  return (
    <>
      <TextField label="Find a project" hint="By a part of its name or App ID." text={search} />
      <Choices
        legend="Limited to"
        options={Object.fromEntries([...shown].map(([appId, { name }]) => [appId, <bdi key={appId}>{name}</bdi>]))}
        showsValues
        chosen={chosen.map(({ appId }) => appId)}
        onChange={(ids) => onChange([...shown.values()].filter(({ appId }) => ids.includes(appId)))}
      />
    </>
  );
}

export function AddOperator({ onDone }: { onDone: (name: string) => void }) {
  const fields = useFields({ name: '', role: 'VIEWER', projects: null });
  const { name, role, projects } = fields;
  const appIds = idsOf(projects);
  return (
    <FormDialog
      title="Add operator"
      submit="Add"
      {...sending(
        ADD,
        { name: name.value, role, appIds },
        command('operator add', {
          name: name.value || 'NAME',
          role: role.toLowerCase(),
          project: appIds ?? [],
        }),
      )}
      onDone={({ addOperator: added }) => onDone(added.name)}
      disabled={name.value.trim() === '' || appIds?.length === 0}
    >
      <OperatorFields {...fields} />
    </FormDialog>
  );
}

export function EditOperator({ operator }: { operator: Operator }) {
  const fields = useFields(operator);
  const name = fields.name.value.trim();
  const appIds = idsOf(fields.projects);
  // Unchanged fields are left out, so that they are not in the log, and undo no change of another admin.
  const input = {
    ...(name !== operator.name && { name }),
    ...(fields.role !== operator.role && { role: fields.role }),
    ...(String(appIds) !== String(idsOf(operator.projects)) && { appIds }),
  };
  return (
    <FormDialog
      title={`Edit ${operator.name}`}
      submit="Save"
      {...sending(
        UPDATE,
        { name: operator.name, input },
        command('operator update', {
          operator: operator.name,
          name: input.name,
          role: input.role?.toLowerCase(),
          project: input.appIds ?? [],
          allProjects: input.appIds === null,
        }),
      )}
      done="The operator is changed."
      disabled={name === '' || Object.keys(input).length === 0 || input.appIds?.length === 0}
    >
      <OperatorFields {...fields} />
    </FormDialog>
  );
}
