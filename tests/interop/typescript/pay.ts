// Pays with the client that was generated into ./client: pay URL SENDER RECIPIENT VALUE
import { AccountsApi, Configuration, ResponseError, TransactionsApi, type Problem, type Submitted } from "./client";

declare const process: { argv: string[] };

const [url, sender, recipient, value] = process.argv.slice(2) as [string, string, string, string];
const configuration = new Configuration({ basePath: url });
const transactions = new TransactionsApi(configuration);
const accounts = new AccountsApi(configuration);

const submit = (value: string): Promise<Submitted> =>
  transactions.submitTransaction({ submission: { from: sender, to: recipient, value, gas: 21000 } });

async function codeOf(refused: Promise<unknown>): Promise<string> {
  try {
    return `not refused: ${JSON.stringify(await refused)}`;
  } catch (error) {
    if (!(error instanceof ResponseError)) return String(error);
    return ((await error.response.json()) as Problem).code;
  }
}

async function main(): Promise<void> {
  const { txHash } = await submit(value);
  const found = await transactions.getTransaction({ hash: txHash, wait: 60, amounts: "string" });
  const account = await accounts.getAccount({ address: recipient, amounts: "string" });
  const refusal = await codeOf(submit(`1${value}0000000`));
  if (found.status !== "confirmed") throw new Error(`${txHash} is ${found.status}`);
  const { blockHeight } = found;
  console.log(JSON.stringify({ txHash, blockHeight, value: found.value, balance: account.balance, refusal }));
}

void main();
