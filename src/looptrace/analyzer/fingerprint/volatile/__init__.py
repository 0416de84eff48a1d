"""What a result or an error has anew because of the call itself, and is no news."""
