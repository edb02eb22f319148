// Asks an IAM policy engine what some policies allow: JSON from standard input, JSON to standard output.
//
//   in:  [{principal, policies: [document, ...], action, resource, account, context,
//         resourcePolicy: document | undefined, boundary: document | undefined}, ...]
//   out: ["Allowed" | "ImplicitlyDenied" | "ExplicitlyDenied", ...]
import { readFileSync } from 'node:fs'
import { runSimulation } from '@cloud-copilot/iam-simulate'

const answers = []
const errors = []
for (const question of JSON.parse(readFileSync(0, 'utf8'))) {
  const { principal, policies, action, resource, account, context, resourcePolicy, boundary } = question
  const answer = await runSimulation(
    {
      request: {
        principal,
        action,
        resource: { resource, accountId: account },
        contextVariables: context,
      },
      identityPolicies: policies.map((policy, index) => ({ name: `policy-${index}`, policy })),
      serviceControlPolicies: [],
      resourceControlPolicies: [],
      permissionBoundaryPolicies: boundary ? [{ name: 'boundary', policy: boundary }] : undefined,
      resourcePolicy,
    },
    {},
  )
  if (answer.errors) {
    errors.push(`${action} on ${resource}: ${JSON.stringify(answer.errors)}`)
    continue
  }
  answers.push(answer.overallResult ?? answer.analysis.result)
}
if (errors.length > 0) {
  throw new Error(errors.join('\n'))
}
process.stdout.write(JSON.stringify(answers))
