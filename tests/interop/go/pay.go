// Pays with the client that was generated into ./client: pay URL SENDER RECIPIENT VALUE
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"cairn.test/interop/client"
)

func main() {
	url, sender, recipient, value := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	configuration := client.NewConfiguration()
	configuration.Servers = client.ServerConfigurations{{URL: url}}
	node := client.NewAPIClient(configuration)
	always := context.Background()

	submitted, err := submit(node, sender, recipient, value)
	check(err)
	found, _, err := node.TransactionsAPI.GetTransaction(always, submitted.TxHash).Wait(60).Amounts("string").Execute()
	check(err)
	account, _, err := node.AccountsAPI.GetAccount(always, recipient).Amounts("string").Execute()
	check(err)
	_, refusal := submit(node, sender, recipient, "1"+value+"0000000")

	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"txHash":      submitted.TxHash,
		"blockHeight": found.ConfirmedTransaction.BlockHeight,
		"value":       found.ConfirmedTransaction.Value.String,
		"balance":     account.Balance.String,
		"refusal":     codeOf(refusal),
	}))
}

func submit(node *client.APIClient, sender, recipient, value string) (*client.Submitted, error) {
	submission := client.NewSubmission(sender, recipient, client.StringAsAmount(&value), 21000)
	submitted, _, err := node.TransactionsAPI.SubmitTransaction(context.Background()).Submission(*submission).Execute()
	return submitted, err
}

func codeOf(refusal error) string {
	var answer *client.GenericOpenAPIError
	if !errors.As(refusal, &answer) {
		return fmt.Sprint(refusal)
	}
	problem, _ := answer.Model().(client.Problem)
	return string(problem.Code)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
